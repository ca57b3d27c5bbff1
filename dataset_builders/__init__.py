"""Builders: group queries by each shift, cut the groups into splits, and write the data set."""
