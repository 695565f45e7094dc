"""What stands between an agent and the outside: a sidecar container that holds the key, counts, and refuses."""
