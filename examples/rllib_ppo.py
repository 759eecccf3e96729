"""RLlib's PPO learns to execute parent orders among simulated traders.

pip install -e . 'ray[rllib]' torch         # in the clone, and in an environment of its own: RLlib pins a version of gymnasium
python examples/rllib_ppo.py
"""

import sys

import gymnasium
from ray.rllib.algorithms.ppo import PPOConfig
from ray.tune.registry import register_env

import serl.environments  # registers serl/Execution-v0


def main(population: str = "liquid", iterations: int = 20, batch: int = 4000) -> None:
    register_env("execution", lambda settings: gymnasium.make(serl.environments.EXECUTION_ID, **settings))
    config = (
        PPOConfig()
        .environment("execution", env_config={"population": population})
        .env_runners(num_env_runners=0, num_envs_per_env_runner=4)
        .training(train_batch_size_per_learner=batch, minibatch_size=batch // 16, gamma=1.0)
    )
    algorithm = config.build_algo()
    for iteration in range(iterations):
        found = algorithm.train()["env_runners"]
        print(f"{iteration}: reward of {found['num_episodes']} orders {found['episode_return_mean']:+.3f}", flush=True)
    algorithm.stop()


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:4]))
