"""Closed-loop research: what an agent's method scores beside published baselines."""
