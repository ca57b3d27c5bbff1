"""Retrievers, which search all passages with a model: dense, sparse, late interaction."""
