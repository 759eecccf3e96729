"""Execution agents: environments, schedules, the executor, execution costs."""
