"""Everything at once: `serl demo`."""
