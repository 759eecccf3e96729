"""SoupBinTCP 3.0 and 4.0, the server side: logins, heartbeats, and sequenced streams that clients replay from any message."""
