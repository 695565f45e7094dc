"""Runs and environments that leave one machine and come to another."""
