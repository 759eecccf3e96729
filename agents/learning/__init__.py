"""Learning: PPO in vector environments, baselines, policy files, training in two markets, evaluation on held-out orders."""
