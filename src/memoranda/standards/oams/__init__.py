"""Open Agent Memory Standard 0.1: namespaced memories and their exchange.

    namespace     `<owner-hash>:<scope>`, and the spaces of a tenant
    memory        the memory: fields, limits, times, and its form in the API
    requests      the parameters of the operations
    answers       the responses of the operations, as JSON Schema
    codes         the error codes
    rpc           JSON-RPC 2.0, single and batch
    mapping       memories to and from the neutral model
    lines         memories.jsonl: reading, writing, sorting
    vectors       embeddings.bin
    bundle        manifest.json, README.md, and the checks of a bundle
    markdown      the Markdown serialization
    jsonl_store   a JSONL file as a store

The modules map bytes and values to values: no clock, no randomness; callers open the files. Section numbers refer to
the OAMS specification 0.1; docs/standards/oams.md explains our reading of it.
"""
