"""Execution agents: schedules, the executor, what an execution cost."""
