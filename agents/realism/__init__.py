"""How close simulated order flow is to real order flow: one report, and the impact of a metaorder."""
