"""A pytest plugin suite that measures whether an AI agent can build a working environment for research code."""
