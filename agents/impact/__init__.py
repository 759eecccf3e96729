"""The impact of metaorders: mechanical on a replayed day, with reactions in a simulated market."""
