"""Tests of the simulated traders."""
