"""What a system, a plan and a run are, and the makers of runs."""
