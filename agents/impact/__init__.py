"""The impact of metaorders: mechanical in a replayed day, with reactions in a simulated market."""
