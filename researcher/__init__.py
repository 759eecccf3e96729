"""The researcher: a language model that designs what execution agents learn with, and gets better at it."""

if __name__ == "researcher":
    raise ImportError("import serl.researcher, not researcher: install the project first (make test does it)")
