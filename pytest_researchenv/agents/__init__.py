"""What builds environments: one file per kind of agent."""
