"""Learners: PPO over vector environments, policies as files, training in two markets, evaluation on held-out orders."""
