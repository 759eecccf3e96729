"""The inner loop: validate, train and score candidates."""
