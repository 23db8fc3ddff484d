"""What the verbs of every standard share: who may, what is protected, views, erasure, audit, the change feed, upkeep."""
