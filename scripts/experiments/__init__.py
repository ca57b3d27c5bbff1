"""The experiments of docs/experiments.md: a plan in TOML for each, and what carries plans out."""
