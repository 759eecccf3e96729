"""The model of a day that gives way."""
