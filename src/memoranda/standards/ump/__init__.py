"""Universal Memory Protocol 0.1 (and 1.0, which is the same wire under another number).

    record       what a record is: closed sets, limits, validation, defaults
    canonical    content hash and identifiers
    signature    the integrity block
    token        capability tokens
    rules        how records change: merge, revise, forget, erase, redact, expire
    markdown     *.ump.md
    front_matter its header, when that is YAML
    jsonfile     *.ump.json and NDJSON
    requests     the operations' parameters, read from untrusted JSON
    rehydrate    recalled records as a framed block for a model's context
    audit        the hash-chained log
    capability   what a server says about itself

Bytes and values in, values out: no clock, no randomness, no files. Section numbers refer to the UMP
specification.
"""
