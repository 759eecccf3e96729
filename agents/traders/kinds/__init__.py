"""The traders that come with serl, one kind per file: model and source, parameters with units, behaviour."""
