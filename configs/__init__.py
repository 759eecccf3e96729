"""YAML defaults, one a concern."""

if __name__ == "configs":
    raise ImportError("import serl.configs, not configs: install the project first (make test does it)")
