"""What probes refer to in a pinned tree, and whether it is there: found by AST, with nothing of the tree run."""
