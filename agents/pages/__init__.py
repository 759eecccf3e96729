"""The look that all reports share."""
