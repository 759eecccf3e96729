"""Market-design experiments: simulates variants of a population with the same seeds, measures and compares them."""
