"""Cboe's PITCH: the depth of book of its US equities exchanges, as binary messages and as text."""
