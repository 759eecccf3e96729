"""A web page of a running exchange: link.py follows the exchange, board.py keeps the state that pages show, server.py serves them."""

PORT = 8700
"""Default port of the page."""
