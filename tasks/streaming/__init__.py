"""Lines in, lines out: in order, in constant memory."""
