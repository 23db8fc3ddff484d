"""How well recall finds what answers a question. `make bench-retrieval` prints one JSON object with stable names."""
