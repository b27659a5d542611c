"""Text to tensors: corpora, readers, tokenisers, vocabularies and length-bucketed batches."""
