"""Market making among simulated traders: environments for reinforcement learning, and closed-form market makers to compare with."""
