"""Modules that a language model writes: five contracts, each as code or as a specification. See docs/modules.md."""
