"""Networks that learn which position to take."""
