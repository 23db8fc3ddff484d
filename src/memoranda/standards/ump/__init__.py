"""Universal Memory Protocol 0.1 (and 1.0, which has the same wire format under another number).

    shapes       the fields of a record, with types and descriptions
    record       the record: closed sets, limits, validation, defaults
    signature    content hash, identifiers, integrity block, and the hash-chained audit log
    token        capability tokens
    paths        the paths of consent.redact
    rules        transitions of records: merge, revise, forget, erase, redact, expire
    markdown     *.ump.md
    front_matter YAML front matter of *.ump.md
    jsonfile     *.ump.json and NDJSON
    requests     the operations' parameters, parsed from untrusted JSON
    extensions   the parameters of operations beyond the standard
    plain        the flat form of a memory and a question
    answers      the operations' responses, as JSON Schema
    rehydrate    recalled records as a framed block for a model's context
    capability   the server's description of itself
    mapping      records to and from the neutral model

The modules map bytes and values to values: no clock, no randomness, no files. Section numbers refer to the UMP
specification.
"""
