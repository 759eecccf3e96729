"""Tuning (DEK, low level): the language model's weights learn from the performance of the modules it wrote."""
