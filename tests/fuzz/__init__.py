"""Fuzzing of everything that reads foreign bytes of OMS and queries of CAL: no crash, no hang, no growth.

    mutate    how inputs are bent, byte-wise and value-wise, from one seed
    targets   what is fed, and what must hold of what it accepts
    campaign  the loop: runs inputs, keeps those that teach something new, collects findings

Nothing but the standard library drives it, and the same seed gives the same inputs. A few seconds of it run with the
tests; `python -m tests.fuzz --minutes 10` runs for longer.
"""
