"""The verbs over the one store, one folder a standard; `core` is what they share."""
