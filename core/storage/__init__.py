"""Files: atomic writes, locks, checkpoints."""
