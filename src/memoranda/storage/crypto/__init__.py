"""Encryption at rest: the cipher, the key ring, and keyed fingerprints."""
