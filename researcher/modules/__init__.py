"""Modules that a language model writes: each kind with a contract, as code or as a specification. See docs/modules.md."""
