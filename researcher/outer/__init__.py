"""The outer loop: a language model proposes learning algorithms, the exchange scores them, and both prompts and weights learn from the scores."""
