"""Fits populations to a real day: measures what has a closed form, then searches for the other parameters by simulation."""
