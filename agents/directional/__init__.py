"""Taking positions among simulated traders: an environment for reinforcement learning, and rules beside it."""
