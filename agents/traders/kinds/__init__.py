"""The traders that come with serl, one file a kind: model, parameters with units and source, behaviour."""
