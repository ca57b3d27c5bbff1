"""The leakage experiment: models trained with and without leaking queries."""
