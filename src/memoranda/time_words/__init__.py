"""The grammar of time words: days, months, weeks, times of day, spans and recurrences that a text names.

Three readers share one vocabulary, one reader of written dates and one calendar (`model.calendar`):

    vocabulary   the words in English, German, French, Spanish, Portuguese, Chinese and Japanese
    dates        written dates in all languages (`find_dates`); days named in a note (`find_days`)
    moments      future instants named in a sentence, for commitments (`find_moments`); times of day (`find_clocks`)
    recurrence   rules such as "every Monday at 8", for commitments (`read_recurrence`)
    spans        past times that a question means, for search (`read_times`)

A reader gets the text, the instant of writing or asking in milliseconds since 1970, and in most cases a time zone. It
returns values with character indices, or spans with weights. Nothing is read from a clock. A question looks back and a
commitment looks ahead, so "on Monday" means the last Monday in `spans` and the next one in `moments`.
"""
