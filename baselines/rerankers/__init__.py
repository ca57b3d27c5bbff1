"""Systems that reorder BM25's first passages."""
