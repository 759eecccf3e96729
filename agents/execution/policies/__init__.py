"""Schedules and learnt policies for parent orders, all with one interface."""
