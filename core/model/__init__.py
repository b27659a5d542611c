"""The Transformer, in the order of the paper's section 3."""
