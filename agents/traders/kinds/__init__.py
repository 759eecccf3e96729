"""The kinds of traders that come with serl, one per file: model and source, parameters with units, behaviour."""
