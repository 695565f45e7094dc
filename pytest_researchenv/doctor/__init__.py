"""What a host has for a run, and what is to be done where it lacks something: one concern a file."""
