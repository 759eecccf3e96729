"""The outer loop: a language model proposes candidates, the inner loop scores them, and prompts and weights learn from the scores."""
