"""From queries to groups to split files: one pure function per shift, and one writer."""
