"""IEX DEEP: captured packets of the price levels and trades of IEX."""
