"""Populations whose day is half an hour. The windows of environments lie anywhere in the day, and everything before them is simulated."""

from pathlib import Path

SMALL = str(Path(__file__).parent / "small_half_hour.yaml")
PAIR = str(Path(__file__).parent / "pair_half_hour.yaml")
