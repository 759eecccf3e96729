"""The modules whose branches guide the fuzzing of a target: those of plain Python. Functions that numba compiles cannot be instrumented."""

_READERS = ("serl.history.decompress", "serl.history.importing", "serl.history.table_rows")
_YAML = (
    "yaml.scanner",
    "yaml.parser",
    "yaml.composer",
    "yaml.constructor",
    "yaml.resolver",
    "serl.exchange.config",
    "serl.agents.traders.builtin",
    "serl.agents.traders.population",
)
MODULES: dict[str, tuple[str, ...]] = {
    "message": ("serl.exchange.wire",),
    "itch": (*_READERS, "serl.history.itch.reader"),
    "dbn": _READERS,
    "iex": (*_READERS, "serl.history.iex.reader"),
    "pitch": (*_READERS, "serl.history.packets", "serl.history.order_writer", "serl.history.pitch.binary", "serl.history.pitch.messages", "serl.history.pitch.orders"),
    "pitch_text": (*_READERS, "serl.history.order_writer", "serl.history.pitch.text", "serl.history.pitch.orders"),
    "coinapi": (*_READERS, "serl.history.order_writer", "serl.history.coinapi", "serl.history.coinapi_rows"),
    "depth": (*_READERS, "serl.history.depth_lines", "json.decoder"),
    "events": (*_READERS, "serl.history.l3_events"),
    "lobster": (*_READERS, "serl.history.lobster", "serl.history.lobster_check"),
    "zip": (*_READERS, "serl.history.lobster", "zipfile"),
    "news": ("serl.clients.news_file", "serl.exchange.journal.news_log", "serl.exchange.news", "csv", "json.decoder"),
    "day": ("serl.history.day", "json.decoder"),
    "exchange": _YAML,
    "population": _YAML,
    "experiment": (*_YAML, "serl.agents.experiments.experiment", "serl.agents.traders.overrides"),
    "policy": ("serl.agents.learning.files", "serl.agents.learning.policy", "serl.agents.execution.environment.interface", "json.decoder"),
    "fix": (*(f"serl.gateways.fix.{name}" for name in ("codec", "fields", "session", "entry", "orders", "reports", "instruments", "resends")),),
    "ouch": ("serl.gateways.ouch.inbound", "serl.gateways.ouch.options", "serl.gateways.soup.packets"),
    "binance": (*(f"serl.gateways.binance.{name}" for name in ("rest", "socket_api", "parameters", "order_entry", "listing", "scale")), "json.decoder"),
}  # fmt: skip
