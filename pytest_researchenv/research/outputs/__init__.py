"""The outputs of the five published tasks, read as what they are: one module for each task.

Each has `PLANS`, what every sub-task needs, and a function that reads a folder. What was read says nothing of whether
it was ever run: that takes running it again.
"""
