"""Validation of a module before training: a static check, then a dry run on recorded inputs. See docs/modules.md."""
