"""Tests of the researcher's page."""
