"""Execution environments: a parent order worked step by step in a static, a replayed or a simulated market."""
