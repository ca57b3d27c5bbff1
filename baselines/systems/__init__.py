"""Systems, plans and runs: a system ranks passages, and a plan makes its run files."""
