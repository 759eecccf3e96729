"""Tests of impact measurements."""
