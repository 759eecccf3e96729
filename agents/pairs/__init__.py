"""Trading two cointegrated symbols against each other among simulated traders."""
