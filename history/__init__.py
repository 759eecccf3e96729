"""Historical market data: readers of published formats, day files, and exports."""

if __name__ == "history":
    raise ImportError("import serl.history, not history: install the project first (make test does it)")
