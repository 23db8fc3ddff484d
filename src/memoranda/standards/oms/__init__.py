"""Open Memory Specification 1.3: memory grains.

    registry     types, vocabularies and error codes as data
    header       the nine bytes before every payload
    normal       the normal form of values: NFC, no nulls, limits
    reader       what the precise readers of both encodings share
    canonical    canonical MessagePack
    cbor         deterministic CBOR
    fields       full names and short keys
    schema       what the fields of each type must be
    advice       what they should be
    profile      sizes by device, fields by domain
    grains       a grain: encode, decode, address, validation
    policy       who may take a grain out of the present
    did          the public keys behind DIDs
    cose         COSE_Sign1, read strictly
    signature    signed grains, and endorsements of a supersession
    disclosure   views that leave fields out and can prove them
    manifest     index state beside the grains
    scan         where one grain ends and the next begins
    zstd         the compressed form, with limits
    container    the .mg file: layout and writer
    container_reader   its reader, recovery, growth
    requests     what is asked of a store, read from untrusted JSON

Bytes and values in, values out: no clock, no randomness, no files. Section numbers refer to the OMS specification
version 1.3; where it contradicts itself, docs/standards/oms.md says what was chosen and why.
"""
