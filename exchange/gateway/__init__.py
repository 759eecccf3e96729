"""From the orders socket to the journal and the book and back, compiled."""
