"""Meaning as numbers: models that turn a text into a vector, where their weights are, and what each vector is of."""
