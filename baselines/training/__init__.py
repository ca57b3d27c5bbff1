"""Training of systems: encoders, triples, teachers, early stopping, checkpoints."""
