"""The JSON form of a query: `writer.to_json` writes it, `reader.from_json` reads it from untrusted JSON."""
