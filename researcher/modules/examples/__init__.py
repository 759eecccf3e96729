"""One module a contract, as code and as a specification. They are texts to be read, by people and language models."""
