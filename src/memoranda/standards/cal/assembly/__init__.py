"""ASSEMBLE after its sources have run.

assembly     duplicates out, budget shared, detail chosen, text printed: `assemble`
dedup, budget, packing                                  its duplicates, shares and choice of grains
pipeline     the stages of a pipeline and set operations
stream       ASSEMBLE as events: `events`, `Feed`, `sse`, `ndjson`
"""
