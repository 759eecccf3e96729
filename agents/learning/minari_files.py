"""Minari datasets of recorded episodes: their location, writing, and reading for a learner.

A dataset is in Minari's folder under a name like `serl/amzn-v0`, where `minari.load_dataset` finds it, or in a folder of its own, for
`minari.MinariDataset`. It is written next to its final place and renamed at the end, so it is complete or absent. The format is Arrow.
"""

import dataclasses
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import minari
import numpy as np
from gymnasium.envs.registration import EnvSpec
from minari.data_collector.episode_buffer import EpisodeBuffer
from minari.dataset.minari_dataset import DATASET_ID_RE
from minari.dataset.minari_storage import METADATA_FILE_NAME, MinariStorage
from minari.storage.datasets_root_dir import get_dataset_path
from numpy.typing import NDArray

from serl.agents.execution.environment.interface import Interface
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.learning.episodes import Recording
from serl.agents.learning.errors import DatasetError
from serl.agents.learning.market_config import MarketConfig
from serl.exchange.errors import ConfigError

KEY = "serl"
"""Key of serl's own metadata within that of a dataset."""
UNITS = {
    "observations": "each in the unit of serl.interface.scales",
    "actions": "in [-1, 1]: shares of the remaining quantity to take and to rest (2 x - 1), and the offset of the resting part",
    "rewards": "bps of the order at its arrival mid",
    "remaining_lots": "lots",
    "mid_ticks": "ticks",
}


@dataclasses.dataclass(frozen=True)
class Place:
    """The location of a dataset."""

    dataset_id: str
    folder: Path
    """The whole dataset; replaced as a whole."""
    inside: str
    """The subfolder that holds the data; datasets in Minari's folder have one."""

    @property
    def data(self) -> Path:
        """The folder that `minari.MinariDataset` reads."""
        return self.folder / self.inside

    @property
    def exists(self) -> bool:
        """Whether there is a dataset."""
        return (self.data / METADATA_FILE_NAME).is_file()


def dataset_place(text: str) -> Place:
    """The place that a text names: a name in Minari's folder if it ends with a version, like serl/amzn-v0, else a folder."""
    if DATASET_ID_RE.fullmatch(text) and re.search(r"-v\d+$", text):
        return Place(text, get_dataset_path(text), "data")
    folder = Path(text).absolute()  # Minari cannot measure the size of a relative one
    name = re.sub(r"[^-\w]", "-", folder.resolve().name)
    return Place(name if re.search(r"-v\d+$", name) else f"{name}-v0", folder, "")


def require_free(place: Place, overwrite: bool) -> None:
    """Raises ConfigError if the place exists, unless it is a dataset that may be overwritten."""
    if place.folder.exists() and not (overwrite and place.exists):
        advice = "give --overwrite to replace it, or another --output" if place.exists else "give another --output"
        what = "a dataset" if place.exists else "something else"
        raise ConfigError(f"{place.folder}: expected no file or folder, got {what}; {advice}")


def environment_spec(config: MarketConfig) -> EnvSpec:
    """The specification from which `recover_environment` makes `serl/Execution-v0` with the settings of a market."""
    settings = config.absolute().model_dump(
        mode="json", exclude={"environments", "data" if config.kind == "dynamic" else "population"}
    )
    where = "serl.environments:execution"  # above this package, which therefore cannot import it
    return EnvSpec("serl/Execution-v0", f"{where}_env", vector_entry_point=f"{where}_vector_env", kwargs=settings)


def write_dataset(
    place: Place, recordings: Sequence[Recording], env: ExecutionVectorEnv, config: MarketConfig, about: dict[str, Any]
) -> None:
    """Writes the episodes of all recordings and their environment. Replaces an existing dataset. about: more metadata, under KEY."""
    low = env.single_action_space.low
    actions = type(env.single_action_space)(-1.0, 1.0, low.shape)
    with _whole_folder(place.folder) as folder:
        data = folder / place.inside
        data.mkdir(exist_ok=True)
        storage = MinariStorage.new(
            data, env.single_observation_space, actions, environment_spec(config), data_format="arrow"
        )
        interface = dataclasses.asdict(Interface.from_env(env))
        of_serl = {**about, "version": version("serl"), "interface": interface, "units": UNITS}
        names = ", ".join(recording.policy for recording in recordings)
        storage.update_metadata(
            {
                "dataset_id": place.dataset_id, "minari_version": minari.__version__, "algorithm_name": names,
                "description": f"Parent orders, each worked by {names}, in serl's execution environment.",
                "requirements": [f"serl=={version('serl')}"], KEY: of_serl,
            }
        )  # fmt: skip
        with _measured_once(storage):
            for recording in recordings:
                first = storage.total_episodes
                storage.update_episodes(_buffers(recording))
                storage.update_episode_metadata(_of_orders(recording), range(first, storage.total_episodes))


@contextmanager
def _measured_once(storage: MinariStorage) -> Iterator[None]:
    """Measures the size of the dataset once at the end. Minari does so after every episode, which takes minutes for a thousand episodes."""
    storage.get_size = lambda: 0.0
    yield
    del storage.get_size
    storage.update_metadata({"dataset_size": storage.get_size()})


def _buffers(recording: Recording) -> Iterator[EpisodeBuffer]:
    for n, steps in enumerate(recording.orders["steps"]):
        ends = [False] * (steps - 1) + [True]
        infos = {"remaining_lots": recording.remaining_lots[n].tolist(), "mid_ticks": recording.mids_ticks[n].tolist()}
        yield EpisodeBuffer(
            observations=recording.observations[n], actions=recording.actions[n], rewards=recording.rewards[n],
            terminations=ends, truncations=[False] * steps, infos=infos,
        )  # fmt: skip


def _of_orders(recording: Recording) -> Iterator[dict[str, Any]]:
    """Metadata of each order: the EPISODE row, the side, the policy and the results; a result that is NaN is null."""
    for n, order in enumerate(recording.orders):
        results = {name: float(values[n]) for name, values in recording.results.items()}
        yield {
            "policy": recording.policy, "side": "sell" if order["sign"] > 0 else "buy",
            "order": {name: int(order[name]) for name in order.dtype.names},
            **{name: value if np.isfinite(value) else None for name, value in results.items()},
        }  # fmt: skip


@contextmanager
def _whole_folder(folder: Path) -> Iterator[Path]:
    """A new folder that replaces `folder` when the block ends, and is removed if the block raises."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        new, old = made / "new", made / "old"
        new.mkdir()
        yield new
        if folder.exists():
            folder.rename(old)
        new.rename(folder)
    finally:
        shutil.rmtree(made)


@dataclasses.dataclass(frozen=True)
class Episodes:
    """The decisions of all episodes of a dataset written by serl, one after the other, without those that have no remaining quantity."""

    observations: NDArray[np.float32]
    """(decisions, size)"""
    actions: NDArray[np.float32]
    """(decisions, k) in [-1, 1]"""
    episode: NDArray[np.int64]
    """(decisions,) index of the episode of each decision."""
    returns: NDArray[np.float64]
    """(episodes,) sums of rewards."""
    order: NDArray[np.int64]
    """(episodes,) index of the order of each episode; policies that worked the same order share it."""
    about: dict[str, Any]
    """The metadata that serl stored in the dataset."""

    @property
    def interface(self) -> Interface:
        """Observations and actions of the environment."""
        return Interface.from_json(self.about["interface"])


def read_episodes(place: Place) -> Episodes:
    """Reads a dataset. Raises DatasetError unless there is one written by serl, with finite numbers."""
    if not place.exists:
        raise DatasetError(f"{place.folder}: expected a Minari dataset, got none; make one with serl episodes export")
    try:
        dataset = minari.MinariDataset(place.data)
        about = dataset.storage.metadata[KEY]
        orders = [str(one["order"]) for one in dataset.storage.get_episode_metadata(range(len(dataset)))]
        episodes = list(dataset)
    except (LookupError, TypeError, ValueError, OSError) as error:
        raise DatasetError(
            f"{place.folder}: expected a dataset of serl episodes export, got another or a damaged one ({error!r})"
        ) from None
    for number, one in enumerate(episodes):
        for name in ("observations", "actions", "rewards"):
            if not np.isfinite(getattr(one, name)).all():
                raise DatasetError(
                    f"{place.folder}: episode {number}: {name}: expected finite numbers, got others; export the dataset again"
                )
    working = [one.infos["remaining_lots"][:-1] > 0 for one in episodes]
    return Episodes(
        np.concatenate([one.observations[:-1][kept] for one, kept in zip(episodes, working, strict=True)]),
        np.concatenate([one.actions[kept] for one, kept in zip(episodes, working, strict=True)]),
        np.repeat(np.arange(len(episodes)), [kept.sum() for kept in working]),
        np.array([one.rewards.sum() for one in episodes]),
        np.unique(orders, return_inverse=True)[1],
        about,
    )
