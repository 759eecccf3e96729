"""Low-level enhancement: the language model itself learns from the performance of what it wrote."""
