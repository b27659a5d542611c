"""The three applications over HTTP: a page for people and a JSON interface for programs."""
