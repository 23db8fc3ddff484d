"""Measurements. `make bench` prints one JSON object with stable names; nothing here passes or fails."""
