"""ASSEMBLE after its sources have run.

assembly     removes duplicates, shares the budget, chooses the detail and prints the text: `assemble`
budget, packing                                         steps of it
pipeline     the stages of a pipeline, set operations, and the removal of duplicates
stream       an ASSEMBLE as a stream of events: `Feed`, `outcome_events`, `encode_sse`, `encode_ndjson`
"""
