"""The JSON form of a query: `writer.statement_json` writes it, `reader.from_json` reads it from untrusted JSON."""
