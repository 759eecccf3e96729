"""Schedules and trained policies for parent orders, all with one interface."""
