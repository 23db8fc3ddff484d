"""Search over a store: the word index, the vectors, and how they are rebuilt and checked."""
