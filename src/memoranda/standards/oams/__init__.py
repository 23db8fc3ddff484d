"""Open Agent Memory Standard 0.1: namespaced memories, and how they are exchanged.

    namespace     `<owner-hash>:<scope>`, and the spaces of a tenant
    memory        what a memory is: fields, limits, times, and how the API shows it
    requests      the parameters of the five operations
    codes         the reserved error codes
    rpc           JSON-RPC 2.0, single and batch
    mapping       memories to and from the neutral model
    lines         memories.jsonl: reading, writing, sorting
    vectors       embeddings.bin
    bundle        manifest.json, README.md, and what makes a bundle whole
    markdown      the Markdown serialization
    jsonl_store   a JSONL file as a store

Bytes and values in, values out: no clock, no randomness; files are opened by others. Section numbers refer to the
OAMS specification 0.1; docs/standards/oams.md says how it was read.
"""
