"""What can be said of runs, in numbers. `docs/statistics.md` has every formula."""
