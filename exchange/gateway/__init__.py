"""The compiled path from the orders socket through the journal and the book, and back."""
