"""Language models: a client for endpoints, pinned model files, and the embedded server."""
