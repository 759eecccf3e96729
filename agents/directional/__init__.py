"""Taking positions among simulated traders: an environment for reinforcement learning, and rules to compare with."""
