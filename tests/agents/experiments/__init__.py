"""Tests of market-design experiments."""
