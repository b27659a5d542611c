"""Pictures that explain the Transformer, its training and what a model has learned."""
