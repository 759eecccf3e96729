"""Populations that are fitted to a real day: measured in closed form, then searched by simulation."""
