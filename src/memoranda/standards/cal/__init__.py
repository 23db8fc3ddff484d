"""CAL 1.0, the Context Assembly Language of OMS 1.3: what should be in an agent's context now.

    codes        the 64 error codes and five warnings
    limits       every limit, as data
    fields       grain types, fields, operators
    item         a grain as a query sees it
    problem      errors as documents: `error_envelope`, `http_status`
    field_index  what the store keeps of a grain field by field, and conditions as questions to it
    plan         what a query would do: `explain`, `side_effects`
    describe     what DESCRIBE answers, and what is declared: `describe`, `capabilities`
    grammar      the grammar as text, and a card for models: `ebnf`, `prompt_card`
    history      what changed between two versions: `differences`
    pages        cursors
    token        capability tokens of CAL
    language/    text to values: lexer, parser, rules, parameters, the one spelling of a query, checking
    wire/        the JSON form of a query: `writer.to_json`, `reader.from_json`
    assembly/    ASSEMBLE after its sources have run, pipelines, streams
    printing/    what of a grain is printed, and the seven formats

Text and values in, values out: no clock, no randomness, no files. Section numbers refer to the CAL specification 1.0;
C1 to C20 are corrections of its grammar that its own examples need. docs/standards/cal.md has both.
"""
