"""Systems, plans and runs: what ranks, and how its run files are made."""
