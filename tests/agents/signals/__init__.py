"""Tests of the realism report."""
