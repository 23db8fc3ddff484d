"""Texts: sentences, what two have in common, statements read by rules, summaries."""
