"""Room on the engine's disk: what builds need, what is kept free, and which frozen images are kept."""
