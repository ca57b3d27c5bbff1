"""What is known about systems under the shifts: so far, the papers' own tables."""
