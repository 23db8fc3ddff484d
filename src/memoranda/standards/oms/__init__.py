"""Open Memory Specification 1.3: memory grains.

    registry     types, vocabularies and error codes as data
    header       the nine bytes before every payload
    normal       the normal form of values: NFC, no nulls, limits
    reader       the common part of the strict readers of both encodings
    canonical    canonical MessagePack
    cbor         deterministic CBOR
    fields       full names and short keys
    schema       rules for the fields of each type
    advice       recommendations for the fields of each type
    profile      sizes by device, fields by domain
    grains       a grain: encode, decode, address, validation
    policy       protection against supersession, contradiction and erasure
    did          the public keys of DIDs
    cose         COSE_Sign1, read strictly
    signature    signed grains, and endorsements of a supersession
    disclosure   views that leave fields out and can prove them
    manifest     index state of the grains in a file
    scan         a scanner that cuts a stream into grains
    zstd         the compressed form, with limits
    container    the .mg file: layout and writer
    container_reader   its reader, and recovery of damaged files
    requests     the requests to a store, parsed from untrusted JSON
    answers      the responses of a store, as JSON Schema
    mapping      grains to and from the neutral model

All modules but the last map bytes and values to values: no clock, no randomness, no files. Section numbers refer to OMS
1.3. Where it contradicts itself, docs/standards/oms.md gives our choice and the reason.
"""
