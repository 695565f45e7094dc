"""Recipes run without installing anything: their sets of packages are resolved for the target instead."""
