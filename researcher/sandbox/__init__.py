"""A process of its own for code that nobody trusts: no network, no files but its folder, bounded in all it uses. See docs/sandbox.md."""
