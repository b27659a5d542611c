"""Greedy search, beam search, diverse beam search and sampling. They depend on no model."""
