"""CAL 1.0, the Context Assembly Language of OMS 1.3: what should be in an agent's context now.

    words        keywords and other fixed words; none that destroys
    codes        the 64 error codes and five warnings
    limits       every limit, as data
    fields       grain types, fields, operators
    times        time expressions such as "last 7 days"
    lexer        text to tokens
    syntax       what a query is: the statements as values
    rules        which value may stand where
    suggest      what to write instead
    cursor       reading tokens and literals, and errors with their place
    draft        a RECALL while it is read
    conditions, options, stages, recall                     the parser of RECALL
    template, template_parser, assemble, evolve, parser     the parser of everything else: `parser.parse`
    binding      parameters: `bind`
    desugar      shortcuts written out
    canonical    the one spelling of a query, and its hash: `canonical`, `query_hash`
    wire         the JSON form, written: `to_json`
    wire_shapes, wire_recall, wire_reader                   the JSON form, read: `wire_reader.from_json`
    budget       how ASSEMBLE shares its budget
    pages        cursors
    check        verdicts without running, warnings, weight
    problem      errors as documents: `error_envelope`, `http_status`
    plan         what a query would do: `explain`, `side_effects`
    describe     what DESCRIBE answers, and what is declared: `describe`, `capabilities`
    grammar      the grammar as text, and a card for models: `ebnf`, `prompt_card`
    history      what changed between two versions: `differences`
    projection   what of a grain is printed: `project`
    elements, plain, prose, toon, structured, yaml_text     how it is printed
    formats      the seven formats: `recall_text`, `assembled_text`, `line_of`, `values_text`
    assembly     ASSEMBLE after its sources have run: `assemble`
    dedup, counter, packing, printers                       its duplicates, tokens, choice of grains, text
    template_render                                         templates, filled
    stream       ASSEMBLE as events: `events`, `Feed`, `sse`, `ndjson`

Text and values in, values out: no clock, no randomness, no files. Section numbers refer to the CAL specification 1.0;
C1 to C20 are corrections of its grammar that its own examples need. docs/standards/cal.md has both.
"""
