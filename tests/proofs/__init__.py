"""Proofs about the store: what must hold when processes die, disks lose power and tenants are curious."""
