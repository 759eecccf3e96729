"""Tests of the outer loop."""
