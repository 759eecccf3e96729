"""A replayed day whose prices give way to the trades of strangers; docs/answering.md has the rules."""
