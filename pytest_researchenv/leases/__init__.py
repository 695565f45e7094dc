"""Who may use which device, and how many may work at once: one line of tickets for all runs of one host."""
