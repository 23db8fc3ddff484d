"""Analysis of texts: sentences, similarity, claims parsed by rules, and summaries."""
