"""Runs that outlive the session that began them: a process of its own looks after each."""
