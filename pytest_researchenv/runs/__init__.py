"""Finished runs, read: everything that looks at results looks through here."""
