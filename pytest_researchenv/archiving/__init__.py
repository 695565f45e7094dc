"""Archives of an agent's folder, made while it works: what to go on from where its container is lost."""
