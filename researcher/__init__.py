"""The researcher: a language model designs learning algorithms for execution agents and learns from their scores."""

if __name__ == "researcher":
    raise ImportError("import serl.researcher, not researcher: install the project first (make test does it)")
