"""Rerankers, which reorder BM25's first passages."""
