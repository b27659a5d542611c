"""A model made ready for decoding."""
