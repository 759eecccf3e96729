"""How close simulated order flow is to real order flow: scores, impact responses, stylised facts, one report."""
