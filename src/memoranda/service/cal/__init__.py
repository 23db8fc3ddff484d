"""CAL: queries over the one store."""
