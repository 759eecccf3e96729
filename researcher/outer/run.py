"""A run of the researcher put together: folder, database, language model, proposer, evaluator."""

import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from serl.agents.execution.data import file_sha256
from serl.agents.learning.settings import SAVED
from serl.agents.traders.population import load_population
from serl.agents.traders.simulate import fingerprint
from serl.exchange.errors import ConfigError
from serl.researcher.candidates import Candidate, Result
from serl.researcher.inner.settings import Settings
from serl.researcher.llm.client import Client
from serl.researcher.llm.replayed import ReplayedClient
from serl.researcher.llm.served import ServedModel, served_model
from serl.researcher.outer.author import Author
from serl.researcher.outer.config import OuterConfig, parse_config
from serl.researcher.outer.database import Database
from serl.researcher.outer.errors import RunError
from serl.researcher.outer.history import lacks_history, with_history
from serl.researcher.outer.loop import OuterLoop, Watch, reason_to_stop
from serl.researcher.outer.low_level import LowLevelTuning
from serl.researcher.outer.proposers import DefaultProposer, DekProposer, EurekaProposer, Proposer, RandomProposer
from serl.researcher.outer.records import Evaluator
from serl.researcher.sandbox import bubblewrap

DATABASE, RECORD, TUNING = "run.db", "calls.jsonl", "tuning"
PACKAGES = ("serl", "numpy", "numba", "torch", "transformers", "peft", "xllamacpp")
CONTEXT_TOKENS = 4096


def evaluator_of(config: OuterConfig, folder: Path, watch: Watch | None = None) -> Evaluator:
    """The inner loop: validation, training, score."""
    from serl.researcher.inner.evaluate import evaluate_many
    from serl.researcher.inner.executors import trainer

    trainer(config.train_on)  # better now than after the first proposals
    told, settings = watch or Watch(), with_history(config.inner, folder)

    def report(candidate: Candidate, stage: str) -> None:
        told.staged(candidate.key, stage)

    def evaluate(candidates: Sequence[Candidate], place: Path) -> list[Result]:
        return evaluate_many(candidates, settings, config.budget, place, config.workers, report, config.train_on)

    return evaluate


def open_run(folder: Path) -> tuple[Database, OuterConfig]:
    """The database and the settings of a run that is there; RunError if none is."""
    if not (folder / DATABASE).is_file():
        raise RunError(f"{folder}: holds no run; begin one with: serl researcher start --output {folder}")
    database = Database(folder / DATABASE)
    return database, parse_config(database.fact("config"), str(folder / DATABASE), SAVED)


def begin(folder: Path, config: OuterConfig, command: str, *, resume: bool) -> Database:
    """The database of a new run, or of one to go on with; RunError if the folder holds the other, a run of other settings, or one whose
    test part was seen and that would go on."""
    there = (folder / DATABASE).is_file()
    if there and not resume:
        raise RunError(f"{folder}: holds a run already; go on with --resume, or give another --output")
    if resume and not there:
        raise RunError(f"{folder}: holds no run to go on with; leave --resume out")
    database = Database(folder / DATABASE)
    free = {"iterations", "hours_max", "llm_budget", "workers", "train_on", "convergence"}
    if resume:
        saved = parse_config(database.fact("config"), str(folder / DATABASE), SAVED)
        before, now = saved.model_dump(mode="json"), config.model_dump(mode="json")
        if changed := [name for name in now if name not in free and now[name] != before[name]]:
            raise RunError(
                f"{folder}: was begun with other settings of {', '.join(changed)}; use the same, or another --output"
            )
        if database.fact("test") is not None and reason_to_stop(config, database) is None:
            raise RunError(
                f"{folder}: its best candidate was scored on the test part, which ends a run: what is found from here on would be chosen "
                "by somebody who knows that score; begin another with --output"
            )
    database.set_fact("config", config.model_dump(mode="json"))
    database.set_fact("command", command)
    database.set_fact("data", data_of(config.inner))
    database.set_fact("versions", {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}})
    return database


def data_of(settings: Settings) -> str:
    """Files and populations of the markets, with fingerprints."""
    market, dynamic = settings.market, load_population(settings.dynamic.population)
    files = [f"{path.name} sha256 {file_sha256(path)[:16]}" for path in market.data]
    return ", ".join([*files, f"population {dynamic.name} sha256 {fingerprint(dynamic)[:16]}"])


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


@contextmanager
def proposing(
    config: OuterConfig, folder: Path, database: Database, *, offline: bool = False
) -> Iterator[tuple[Proposer, ServedModel | None]]:
    """The proposer of a run, with its language model for as long as the context lasts."""
    if config.proposer == "default":
        yield DefaultProposer(), None
        return
    if config.proposer == "random":
        yield RandomProposer(config), None
        return
    if config.form == "code":
        bubblewrap.available()  # better now than after the first answer
    if config.endpoint is not None or offline:
        yield _proposer(config, database, _author(config, _client(config, folder, offline)), None), None
        return
    with served_model(
        config.model, threads=config.server_threads, context_tokens=CONTEXT_TOKENS * (1 if config.form == "spec" else 4)
    ) as served:
        author = _author(config, Client(served.endpoint, config.llm_budget, folder / RECORD))
        tuning = None
        if config.tuned is not None:
            tuning = LowLevelTuning(config.tuned, config.form, config.model, folder / TUNING, served, database)
            tuning.resume(database.iterations_done, author)
        yield _proposer(config, database, author, tuning), served


def _client(config: OuterConfig, folder: Path, offline: bool) -> Client:
    """Of an endpoint elsewhere, or of the record of what the embedded one has said."""
    if config.endpoint is not None:
        return Client(config.endpoint, config.llm_budget, folder / RECORD, offline=offline)
    return ReplayedClient(config.model, config.llm_budget, folder / RECORD)


def _author(config: OuterConfig, client: Client) -> Author:
    return Author(client, config.form, config.repairs_max, config.answer_tokens, config.tuned is not None)


def _proposer(config: OuterConfig, database: Database, author: Author, tuning: LowLevelTuning | None) -> Proposer:
    if config.proposer == "eureka":
        return EurekaProposer(config, database, author)
    return DekProposer(config, database, author, tuning)


def research(
    config: OuterConfig, folder: Path, database: Database, evaluator: Evaluator | None = None, watch: Watch | None = None, *, offline: bool = False
) -> str:  # fmt: skip
    """Runs to the end; why it ended."""
    evaluate = evaluator or evaluator_of(config, folder, watch)
    with proposing(config, folder, database, offline=offline) as (proposer, served):

        def revive() -> None:
            """A served model that has died is started again, as it was."""
            if served is not None and not served.alive:
                served.restart(*served.serving)

        loop = OuterLoop(config, folder, database, proposer, evaluate, watch or Watch(), revive)
        return loop.run()


def notices(config: OuterConfig) -> list[str]:
    """What a user should know before the run."""
    told = []
    if config.proposer == "dek" and config.low_level is None and config.endpoint is not None:
        told.append(
            f"low level off: {config.endpoint.base_url} does not show the weights of {config.endpoint.model}; "
            "the embedded model (leave --url out) is tuned"
        )
    if lacks_history(config.inner):
        told.append(
            f"no data: the history of the static market is a simulated day of {config.inner.dynamic.population}; name yours in inner.market.data"
        )
    return told


def with_endpoint(config: OuterConfig, url: str | None, model: str | None) -> OuterConfig:
    """Settings with --url and --model put in."""
    values = config.model_dump(mode="json")
    if url is not None:
        if not url.startswith(("http://", "https://")):
            raise ConfigError(f"--url: http://... or https://... is due, got {url}")
        old = values["endpoint"] or {}
        name = model or old.get("model")
        if name is None:
            raise ConfigError("--url: say which model it serves, with --model")
        values["endpoint"] = old | {"base_url": url, "model": name}
    elif model is not None and values["endpoint"]:
        values["endpoint"] |= {"model": model}
    elif model is not None:
        values["model"] = model
    return parse_config(values, "--url, --model")
