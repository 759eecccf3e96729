"""LLM traders: participants of an exchange whose decisions a language model makes."""

if __name__ == "minds":
    raise ImportError("import serl.minds, not minds: install the project first (make test does it)")
