"""Reference systems: one file each; training and search are shared."""
