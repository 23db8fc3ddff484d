"""Times that a text names: days, moments to come, what comes again."""
