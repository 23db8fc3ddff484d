"""openwop agent memory 1.1: what a workflow host and its memory say to each other.

    entry         MemoryEntry, drafts of one, MemoryListOptions
    refs          memoryRef: which are well-formed, and the spaces they name
    mapping       entries to and from the neutral model
    redaction     SR-1: the secrets of a run, and markers
    events        RunEventDoc and the payloads of everything that is about memory
    runs          snapshots of runs, requests to start and to fork one
    proposals     Proposal: shape, moves, safety
    artifacts     what a proposal would install, kind by kind
    workspace     workspace files: paths, versions, ETags
    capabilities  the discovery document, and the eight dimensions of memory
    inventory     the agents, and which of them get less memory than they ask for
    problem       the error envelope
    fields        checks of single fields

Values in, values out: no clock, no randomness, no files. "RFC" are openwop's; docs/standards/openwop.md says how all
of it was read.
"""
