"""A run of the researcher: folder, database, language model, proposer, evaluator."""

import platform
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from serl.agents.learning.settings import SAVED
from serl.exchange.code_cache import BACKGROUND_NICENESS, precompiling
from serl.exchange.errors import ConfigError
from serl.researcher.candidates import Candidate, Result
from serl.researcher.inner.market_facts import market_facts
from serl.researcher.llm.client import Client, ReplayedClient
from serl.researcher.llm.served import ServedModel, served_model
from serl.researcher.llm.settings import REACHING, Size
from serl.researcher.modules.contracts import Form
from serl.researcher.outer.author import Author
from serl.researcher.outer.background import in_background
from serl.researcher.outer.baselines import ClimbProposer, ParzenProposer
from serl.researcher.outer.config import OuterConfig, parse_config
from serl.researcher.outer.data import data_of, require_same_data
from serl.researcher.outer.database import Database
from serl.researcher.outer.dek import DekProposer
from serl.researcher.outer.errors import RunError
from serl.researcher.outer.history import lacks_history, with_history
from serl.researcher.outer.loop import CANDIDATES, Callbacks, OuterLoop, final_begun, reached
from serl.researcher.outer.low_level import LowLevelTuning
from serl.researcher.outer.proposers import DefaultProposer, EurekaProposer, Proposer, RandomProposer
from serl.researcher.outer.records import Evaluator
from serl.researcher.outer.run_lock import lock_run
from serl.researcher.sandbox import bubblewrap

DATABASE, RECORD, TUNING = "run.db", "calls.jsonl", "tuning"
PACKAGES = ("serl", "numpy", "numba", "torch", "transformers", "peft", "xllamacpp")
CONTEXT_TOKENS = 4096
SECRET_DAYS = (10_000, 850_000)
"""The first number of a scored day that may be drawn, and how many numbers there are."""


def make_evaluator(config: OuterConfig, folder: Path, callbacks: Callbacks | None = None) -> Evaluator:
    """The inner loop as an evaluator: validation, training, score."""
    from serl.researcher.inner.evaluate import evaluate_many
    from serl.researcher.inner.executors import trainer

    trainer(config.train_on)  # fail before the first proposals
    observer, settings = callbacks or Callbacks(), with_history(config.inner, folder)

    def report(candidate: Candidate, stage: str) -> None:
        observer.on_stage(candidate.key, stage)

    def evaluate(candidates: Sequence[Candidate], place: Path) -> list[Result]:
        return evaluate_many(
            candidates, settings, config.budget, place, config.workers, report, config.train_on, config.incumbent_candidate
        )  # fmt: skip

    return evaluate


def open_run(folder: Path) -> tuple[Database, OuterConfig]:
    """The database and settings of an existing run; RunError if the folder contains none."""
    if not (folder / DATABASE).is_file():
        raise RunError(f"{folder}: contains no run; start one with: serl researcher start --output {folder}")
    database = Database(folder / DATABASE)
    try:
        if (config := database.fact("config")) is None:
            raise RunError(f"{folder}: contains a run that has not begun; start it again without --resume")
        return database, parse_config(config, str(folder / DATABASE), SAVED)
    except BaseException:
        database.close()
        raise


def with_secret_days(config: OuterConfig, folder: Path, *, resume: bool) -> OuterConfig:
    """The settings with a secret number of the first scored day, so that code which knows how days are simulated cannot train on the days that it
    is scored on. A run keeps the number that it began with. Tasks, whose days are published, and runs of specifications have no secret number."""
    if config.form != "code" or config.task is not None or config.inner.first_scored_day is not None:
        return config
    if resume and (folder / DATABASE).is_file():
        database, saved = open_run(folder)
        database.close()
        drawn = saved.inner.first_scored_day
    else:
        first, count = SECRET_DAYS
        drawn = first + secrets.randbelow(count - max(config.inner.market.first_day, config.inner.dynamic.first_day))
    return config.model_copy(update={"inner": config.inner.model_copy(update={"first_scored_day": drawn})})


def begin(folder: Path, config: OuterConfig, command: str, *, resume: bool) -> Database:
    """The database of a new run, or of a run to resume.

    RunError if `resume` is false and the folder contains a run, or if it is true and the folder contains no run, a run with other settings or data,
    or one whose test part was scored and that would continue; also if another process works on the run.
    """
    no_run = RunError(f"{folder}: contains no run to resume; omit --resume")
    if resume and not (folder / DATABASE).is_file():
        raise no_run
    data = data_of(config.inner)
    with ExitStack() as undo:
        database = Database(folder / DATABASE, undo.enter_context(lock_run(folder)))
        undo.callback(database.close)
        begun = database.fact("config") is not None  # a run killed before this, or without disk space, can be started
        if begun and not resume:
            raise RunError(f"{folder}: contains a run already; continue with --resume, or use another --output")
        if resume and not begun:
            raise no_run
        if resume:
            _require_same(database, config, data)
        database.set_fact("config", config.model_dump(mode="json"))
        database.set_fact("command", command)
        database.set_fact("data", data)
        database.set_fact(
            "versions", {"python": platform.python_version()} | {name: _version(name) for name in PACKAGES}
        )
        undo.pop_all()
    return database


def _require_same(database: Database, config: OuterConfig, data: str) -> None:
    """RunError if a run cannot continue with these settings and data."""
    folder, free = database.folder, {"iterations", "hours_max", "llm_budget", "workers", "train_on", "convergence"}
    saved = parse_config(database.fact("config"), str(folder / DATABASE), SAVED)
    if not database.one("SELECT count(text) FROM modules WHERE origin = 'model'"):
        free |= {"endpoint", "endpoints"}  # none of them has written anything: one that refused may be corrected
    before, now = _that_choose(saved), _that_choose(config)
    if changed := [name for name in now if name not in free and now[name] != before[name]]:
        raise RunError(
            f"{folder}: the run has other settings of {', '.join(changed)}; use the same, or another --output"
        )
    require_same_data(database, data)
    if final_begun(database) and reached(config, database) is None:
        raise RunError(
            f"{folder}: its best candidate was scored on the test part, which ends a run: further choices would be "
            "informed by that score; start another run with --output"
        )


def _that_choose(config: OuterConfig) -> dict[str, Any]:
    """The settings as plain values, without those of endpoints that do not change what their models answer."""
    values = config.model_dump(mode="json")
    return values | {
        "endpoint": _answering(values["endpoint"]),
        "endpoints": list(map(_answering, values["endpoints"])),
    }


def _answering(endpoint: dict[str, Any] | None) -> dict[str, Any] | None:
    return endpoint and {name: value for name, value in endpoint.items() if name not in REACHING}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


@contextmanager
def open_proposer(
    config: OuterConfig, folder: Path, database: Database, *, offline: bool = False
) -> Iterator[tuple[Proposer, ServedModel | None]]:
    """The proposer of a run and the served language model, if any, for the duration of the context."""
    if not config.uses_llm:
        yield _without_model(config, database), None
        return
    if config.form == "code":
        bubblewrap.require_bwrap()  # fail before the first answer
    if config.endpoint is not None or offline:
        first = _first_author(config, _client(config, folder, offline))
        yield _proposer(config, database, [first, *_more_authors(config, first)], None), None
        return
    with served_model(config.model, threads=config.server_threads, context_tokens=_embedded_context(config)) as served:
        first = _first_author(config, Client(served.endpoint, config.llm_budget, folder / RECORD))
        tuning = None
        if config.active_low_level is not None:
            tuning = LowLevelTuning(
                config.active_low_level, config.form, config.model, folder / TUNING, served, database
            )
            tuning.resume(database.iterations_done, first)
        yield _proposer(config, database, [first, *_more_authors(config, first)], tuning), served


def _without_model(config: OuterConfig, database: Database) -> Proposer:
    match config.proposer:
        case "random":
            return RandomProposer(config)
        case "tpe":
            return ParzenProposer(config, database)
        case "climb":
            return ClimbProposer(config, database)
        case "search":
            return DekProposer(config, database, [], None)
    return DefaultProposer()


def _client(config: OuterConfig, folder: Path, offline: bool) -> Client:
    """A client of the external endpoint, or a replay of the embedded model's record."""
    if config.endpoint is not None:
        return Client(config.endpoint, config.llm_budget, folder / RECORD, offline=offline)
    return ReplayedClient(config.model, config.llm_budget, folder / RECORD)


def _embedded_context(config: OuterConfig) -> int:
    return CONTEXT_TOKENS * (1 if config.form == "spec" else 4)


def _first_author(config: OuterConfig, client: Client) -> Author:
    """The author of `endpoint` or of the embedded model. If it is tuned, its answers need log-probabilities and the temperature at which they are
    scored."""
    if config.endpoint is not None:
        return _author(config, client, config.endpoint.size, config.endpoint.context_tokens)
    author = _author(config, client, "tiny" if config.model == "tiny" else "small", _embedded_context(config))
    if config.active_low_level is not None:
        author.logprobs, author.temperature = True, config.active_low_level.tuning.temperature
    return author


def _more_authors(config: OuterConfig, first: Author) -> list[Author]:
    """The authors of `endpoints`, with the same record and budget."""
    clients = [Client(one, config.llm_budget, offline=first.client.offline) for one in config.endpoints]
    for client in clients:
        client.record = first.client.record
    return [_author(config, one, one.endpoint.size, one.endpoint.context_tokens) for one in clients]


def _author(config: OuterConfig, client: Client, size: Size, context_tokens: int) -> Author:
    form: Form = "spec" if size == "tiny" else config.form  # a tiny model cannot write code
    return Author(client, form, config.repairs_max, config.answer_tokens(form), False, size, context_tokens)


def _proposer(
    config: OuterConfig, database: Database, authors: list[Author], tuning: LowLevelTuning | None
) -> Proposer:
    if config.proposer == "eureka":
        return EurekaProposer(config, database, authors[0])
    return DekProposer(config, database, authors, tuning)


def research(
    config: OuterConfig, folder: Path, database: Database, evaluator: Evaluator | None = None, callbacks: Callbacks | None = None, *, offline: bool = False
) -> str:  # fmt: skip
    """Run to the end. Returns the reason why the run ended."""
    evaluate = evaluator or make_evaluator(config, folder, callbacks)
    if evaluator is None and config.uses_llm and database.fact("market") is None:
        database.set_fact("market", market_facts(with_history(config.inner, folder).market))
    if evaluator is None and config.uses_signals and not database.signals:
        from serl.researcher.inner.signals import market_signals

        database.set_signals(market_signals(with_history(config.inner, folder).market))
    # an exchange that serves a score ends before it has compiled its own rule book
    rule_book = precompiling("rulebook", niceness=BACKGROUND_NICENESS)
    with rule_book, open_proposer(config, folder, database, offline=offline) as (proposer, served):

        def revive() -> None:
            """Restart a served model that has died."""
            if served is not None and not served.alive:
                served.restart(*served.serving)

        loop = OuterLoop(config, folder, database, proposer, evaluate, callbacks or Callbacks(), revive)
        if served is not None:
            loop.beside_first = incumbent_training(config, folder, evaluate)
        return loop.run()


def incumbent_training(
    config: OuterConfig, folder: Path, evaluate: Evaluator
) -> Callable[[], AbstractContextManager[None]]:
    """Returns a context that trains the incumbent, with which all candidates are compared, while an embedded model, which is slow and uses one core,
    makes the first proposals."""
    from serl.researcher.inner.worker import abandon

    return lambda: in_background(lambda: evaluate([config.incumbent_candidate], folder / CANDIDATES), abandon)


def require_reachable_endpoints(config: OuterConfig) -> None:
    """Raises EndpointUnreachableError unless the endpoints answer. Otherwise a run would train and score candidates that are drawn without them."""
    from serl.researcher.llm.attempts import require_reachable

    for endpoint in (config.endpoint, *config.endpoints):
        if endpoint is not None:
            require_reachable(endpoint)


def notices(config: OuterConfig) -> list[str]:
    """Notices for the user before the run."""
    messages = []
    if config.proposer == "dek" and config.low_level is None and config.endpoint is not None:
        messages.append(
            f"low level off: {config.endpoint.base_url} does not provide the weights of {config.endpoint.model}; "
            "omit --url to tune the embedded model"
        )
    if lacks_history(config.inner):
        messages.append(
            f"no data: the history of the static market is a simulated day of {config.inner.dynamic.population}; set inner.market.data to use your own"
        )
    return messages


def with_endpoint(config: OuterConfig, url: str | None, model: str | None) -> OuterConfig:
    """The settings with --url and --model applied."""
    values = config.model_dump(mode="json")
    if url is not None:
        if not url.startswith(("http://", "https://")):
            raise ConfigError(f"--url: expected http://... or https://..., got {url}")
        old = values["endpoint"] or {}
        name = model or old.get("model")
        if name is None:
            raise ConfigError("--url: expected the name of a model; add --model")
        values["endpoint"] = old | {"base_url": url, "model": name}
    elif model is not None and values["endpoint"]:
        values["endpoint"] |= {"model": model}
    elif model is not None:
        values["model"] = model
    return parse_config(values, "--url, --model")
