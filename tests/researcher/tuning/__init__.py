"""Tests of the researcher."""
