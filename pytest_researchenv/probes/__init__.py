"""What decides the tiers: one file per tier."""
