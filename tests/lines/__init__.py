"""Random sequences of verbs over all standards and interfaces, compared with a plain model of a memory with a line.

model.py      memories as lines of versions, and the effect of every verb on them
stage.py      a real store with its callers, interfaces, other stores, files and a clock
notes.py      a folder of notes that is synchronised, and what people do to its files
sequence.py   sequences of steps: generated from a seed, performed, compared after each step, made minimal
__main__.py   the long run: python -m tests.lines --sequences 5000 --store sqlite --seed 1
"""
