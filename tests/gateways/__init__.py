"""Gateways: each is tried with the clients that people have."""
