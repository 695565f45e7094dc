"""A run, watched while work goes on: read bit by bit from its folder, and told as a picture or as events."""
