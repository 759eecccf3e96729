"""Fuzzing of everything that reads what strangers wrote: `make fuzz TARGET=... RUNS=...`; docs/trust.md, Fuzzing."""
