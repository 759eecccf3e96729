"""Trains kinds/neural_flow.py, a network that generates the order flow of a market, on the tapes of real days."""
