"""What many memories come to: the algorithms behind consolidation, without a model.

    note         what is read: `Note`; cleaning and quoting of foreign text
    sentences    text to sentences, in any script: `sentences`
    reading      notes read once: `Reading`, `Sentence`
    similar      the same statement, the same topic: `fold`, `same_statement_groups`, `Vectors`, `cosine`, `jaccard`
    cluster      groups from pairs: `clusters`
    dates        days named in a text: `named_days`
    predicates   the verbs claims are read by, as data
    claims       who, what, which value; contradictions: `read_claims`, `conflicts`, `agreements`, `current`
    series       figures and events in time: `series`, `trend`, `events`, `rhythm`
    summary      extractive, within a budget of tokens: `summarize`
    dream        what comes out: `Dream`, `Options`, `Writer`
    merging, patterns, insights, linking, checking, outlook, overview      the nine strategies
    strategies   all of them by name: `run`, `STRATEGIES`
    moments, recurrence     times to come, and times that come again
    conditions, intents     what later text must state; the words that intentions begin with
    commitments  standing commitments in a text: `find_commitments`, `is_met`
    repeats, timetable, twins                                              sequences, schedules, duplicates
    habits       what recorded runs suggest: `synthesise`
    model        a writer behind an OpenAI-compatible endpoint: `ModelWriter`

Values in, values out: the same notes, time and options give the same bytes, in whatever order the notes come. Every
result names the notes it rests on. Only `model` speaks to anyone, and only when somebody hands it in.
"""
