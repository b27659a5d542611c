"""Text to tensors: corpora, readers, tokenizers, vocabularies and length-bucketed batches."""
