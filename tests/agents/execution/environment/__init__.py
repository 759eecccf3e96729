"""Tests of execution environments."""
