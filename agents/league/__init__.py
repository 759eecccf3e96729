"""A league of executors and market makers, both rules and learnt ones, which meet in every pairing in one simulated market."""
