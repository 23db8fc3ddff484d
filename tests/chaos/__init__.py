"""Chaos: a real server under load by four standards and composed faults, compared with what it promised.

make chaos MINUTES=30      everything at random
    ARGS="--nodes 3"       three servers on a PostgreSQL with a standby, of which servers and primaries are killed
make soak                  64 clients without faults: errors, latencies, memory
"""
