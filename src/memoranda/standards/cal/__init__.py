"""CAL 1.0, the Context Assembly Language of OMS 1.3: queries that say what belongs into an agent's context.

    codes        the 64 error codes
    limits       every limit of a query
    fields       grain types, fields, operators
    item         a grain as a query sees it
    problem      errors as documents: `error_envelope`, `http_status`
    field_index  the field index of a grain, written with each grain: `field_index_of`
    conditions   conditions as tests on the field index: `build_index_query`, `matches`
    plan         the plan of a query: `explain`, `side_effects`
    describe     answers to DESCRIBE, and the conformance declaration: `describe`, `capabilities`
    grammar      the grammar as text, and a summary for language models: `ebnf`, `prompt_card`
    history      differences between two versions: `find_differences`
    pages        page cursors
    token        capability tokens of CAL
    requests, answers   the shapes of requests and answers over HTTP and MCP
    language/    text to values: lexer, parser, rules, parameters, canonical text, checks
    wire/        the JSON form of a query: `writer.statement_json`, `reader.from_json`
    assembly/    ASSEMBLE after its sources have run, pipelines, streams
    printing/    the printed content of a grain, and the seven formats

Everything here is a pure function of its arguments: no clock, no randomness, no files. Section numbers refer to the CAL
specification 1.0. C1 to C20 are corrections of its grammar that its own examples need; docs/standards/cal.md has both.
"""
