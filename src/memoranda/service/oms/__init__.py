"""OMS: grains in the one store."""
