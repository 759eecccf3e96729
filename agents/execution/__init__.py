"""Execution agents: environments, policies, the executor and execution costs."""
