"""The parts that the verbs of every standard share.

Who may do it: access, sign_in, consent, authorship, protection, compliance, limits. The tables of verbs: verbs,
context. Writing: indexing, lifecycle, lineage, cascade, secret_screening. Reading: views, lookup, ranking,
semantic_search, feed. In the background: embedding_queue, upkeep. On record: audit.
"""
