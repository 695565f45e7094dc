"""A read-through cache of Python packages that agents' containers share: proxpi in a sidecar container."""
