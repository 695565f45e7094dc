"""Runs as pages for people: one page for what was run, and one for each environment."""
