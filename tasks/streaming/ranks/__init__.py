"""Several processes share the lines of one file."""
