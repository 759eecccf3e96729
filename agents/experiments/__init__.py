"""Market-design experiments: variants of a population, simulated with the same seeds, measured and compared."""
