"""A training run, from the configuration to the metrics."""
