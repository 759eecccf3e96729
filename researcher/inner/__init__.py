"""The inner loop: a candidate is validated, trained, and scored on a served exchange."""
