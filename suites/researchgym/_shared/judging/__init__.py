"""What the evaluations of our own tasks share: it needs the standard library alone, and imports nothing handed in."""
# researchgym canary 564fea92-6bd3-44ab-ae3a-f8fefb7db5c7
