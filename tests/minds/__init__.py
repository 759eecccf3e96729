"""Tests of LLM traders."""
