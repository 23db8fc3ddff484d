"""Finding the right memory: words and their places in numpy arrays, and the ranking of what is found. Pure."""
