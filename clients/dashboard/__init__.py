"""A web page of a running exchange: link.py follows it, board.py keeps what pages show, server.py serves them."""

PORT = 8700
"""Default port of the page."""
