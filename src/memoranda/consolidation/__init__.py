"""The algorithms of a consolidation run: derive statements, links and drafts from many memories, without a model.

    text/         notes, sentences, similarity of texts, claims parsed by rules, extractive summaries
    strategies/   the nine strategies of OAMS section 6: `catalogue.run_strategy`, `catalogue.STRATEGIES`
    commitments/  standing commitments in a text: `commitments.find_commitments`, `commitments.is_met`
    habits/       drafts of what could be learned from recorded runs: `habits.draft_habits`
    writer        an optional language model behind an OpenAI-compatible endpoint: `ModelWriter`

Data flow: the caller turns memories into `MemoryNote` values. `Corpus` sorts them and splits them into sentences. A
strategy reads the corpus and returns `Dream` results, each with the names of the notes that it rests on.

All functions are pure and deterministic: equal notes, time and options give equal bytes, whatever the order of the
notes. Only `ModelWriter` uses the network, and only if the caller passes one.
"""
