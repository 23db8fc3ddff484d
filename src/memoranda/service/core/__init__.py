"""What the verbs of every standard share: who may, what is protected, views, erasure, audit, feed and upkeep."""
