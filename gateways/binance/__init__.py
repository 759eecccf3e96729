"""A gateway with Binance's spot API: REST, market streams, user data streams and the WebSocket API."""
