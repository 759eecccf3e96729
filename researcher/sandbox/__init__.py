"""A sandbox for untrusted code: one process without network, with one writable folder and bounded resources. See docs/sandbox.md."""
