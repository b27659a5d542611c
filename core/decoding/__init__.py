"""Searches for an output sequence. They depend on no model."""
