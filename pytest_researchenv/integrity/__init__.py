"""Signs that an environment is not what it seems, read from outside: nothing of the environment takes part."""
