"""Memoranda where agent frameworks ask for a memory: one file each, loaded only by whoever uses that framework.

Each takes an open `Memoranda`, of this process or on a server, and keeps what the framework stores as memories of
OAMS, so that every other standard, and every agent over MCP, finds it by what it says.
"""
