"""What many memories come to: the algorithms behind consolidation, without a model.

    text/         notes, sentences, what two texts have in common, statements read by rules, summaries
    time/         days, moments, recurrences and timetables that a text names
    strategies/   the nine strategies of OAMS section 6: `catalogue.run`, `catalogue.STRATEGIES`
    commitments/  standing commitments in a text: `commitments.find_commitments`, `commitments.is_met`
    habits/       what recorded runs suggest: `habits.synthesise`
    writer        a writer behind an OpenAI-compatible endpoint: `ModelWriter`

Values in, values out: the same notes, time and options give the same bytes, in whatever order the notes come. Every
result names the notes it rests on. Only `writer` speaks to anyone, and only when somebody hands it in.
"""
