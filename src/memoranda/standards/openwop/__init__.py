"""openwop agent memory 1.1: the interface between a workflow host and its memory.

    entry         MemoryEntry, drafts of one, MemoryListOptions
    refs          memoryRef: its form, and the spaces of refs
    mapping       entries to and from the neutral model
    redaction     SR-1: the secrets of a run, and markers
    events        RunEventDoc and the payloads of memory events
    runs          snapshots of runs, requests to start and to fork one
    proposals     Proposal: shape, transitions, safety
    artifacts     the artifacts of proposals, by kind
    workspace     workspace files: paths, versions, ETags
    capabilities  the discovery document, and the eight dimensions of memory
    inventory     the agents, and those with less memory than they require
    problem       the error envelope
    requests      the HTTP requests
    answers       the responses, as JSON Schema
    fields        checks of single fields

The modules map values to values: no clock, no randomness, no files. "RFC" stands for openwop's RFCs;
docs/standards/openwop.md explains our reading of them.
"""
