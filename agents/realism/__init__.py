"""Measures how close simulated order flow is to real order flow: scores, impact responses, stylised facts, and one report."""
