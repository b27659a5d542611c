"""Models prepared for decoding, and scoring."""
