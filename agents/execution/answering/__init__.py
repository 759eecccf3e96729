"""A replayed day whose prices give way to the trades of live participants; docs/answering.md has the rules."""
