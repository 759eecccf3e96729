"""Fits populations to a real day: measures what it can in closed form, then searches the rest by simulation."""
