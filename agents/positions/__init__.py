"""What environments share whose agents hold positions among simulated traders: the market, its compiled step, accounts, observations, comparison."""
