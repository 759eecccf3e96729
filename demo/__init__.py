"""`serl demo`: all parts of serl in one command."""
