"""Trading days of the past: readers that turn them into COMMAND rows, and day files that keep them."""
