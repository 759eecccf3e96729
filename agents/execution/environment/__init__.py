"""Execution environments: a parent order worked step by step in a static, replayed or simulated market."""
