"""The layout that all reports share."""
