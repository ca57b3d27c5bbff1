"""Systems that search all passages with a model: dense, sparse, late interaction."""
