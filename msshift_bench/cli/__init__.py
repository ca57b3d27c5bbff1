"""The `msshift` command: one module per sub-command."""
