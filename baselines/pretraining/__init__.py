"""Pre-training encoders on a collection's passages alone."""
