"""Views of what the store holds: never the truth itself."""
