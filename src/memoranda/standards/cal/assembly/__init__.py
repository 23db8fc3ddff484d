"""ASSEMBLE after its sources have run.

assembly     removes duplicates, shares the budget, chooses the detail and prints the text: `assemble`
dedup, budget, packing                                  the three steps of it
pipeline     the stages of a pipeline and set operations
stream       an ASSEMBLE as a stream of events: `Feed`, `outcome_events`, `encode_sse`, `encode_ndjson`
"""
