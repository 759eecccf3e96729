"""Forecasts from the order book: trained on days, tested on later hours, published while a market runs."""
