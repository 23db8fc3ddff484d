"""Embeddings: models that turn texts into vectors, the location of their weights, and the texts that are embedded."""
