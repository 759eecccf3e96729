"""Language models: the client of an endpoint, models as files, the embedded endpoint."""
