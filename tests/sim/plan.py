"""What one seed chooses: the exchange's configuration, and which faults happen how often. Most seeds have some faults, few have all."""

from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from serl.exchange.config import ExchangeConfig, load_config
from tests.sim.network import Weather

FAULTS = {
    "kill": 0.02,
    "kill in a disk call": 0.02,
    "power cut": 0.015,
    "power cut in a disk call": 0.015,
    "clean stop": 0.008,
    "failing sync": 0.008,
    "full disk": 0.01,
    "clock jump": 0.02,
    "pause": 0.005,
    "partition": 0.01,
    "slow reader": 0.015,
    "client killed": 0.01,
    "operator's snapshot": 0.03,
    "flipped bit": 0.4,  # at each restart
}
"""How often each happens in a step, where the seed has it."""
SYMBOLS = ("A", "B")


@dataclass
class Plan:
    """The choices of one seed."""

    config: ExchangeConfig
    traders: int
    steps: int
    weather: Weather
    faults: dict[str, float] = field(default_factory=dict)
    fees: list[tuple[int, int, int, int]] = field(default_factory=list)


def make_plan(random: Random, folder: Path) -> Plan:
    """Draws the choices of a seed."""
    fees: list[Any] = [
        tuple(random.choice((0, -20, 30)) for _ in range(4)) if random.random() < 0.4 else (0, 0, 0, 0) for _ in SYMBOLS
    ]
    names = ("maker_microticks", "maker_ppm", "taker_microticks", "taker_ppm")
    overrides: dict[str, Any] = {
        "symbols": [
            {"name": name, "fees": dict(zip(names, own, strict=True))} for name, own in zip(SYMBOLS, fees, strict=True)
        ],
        "clock": {"kind": random.choice(("live", "scaled"))},
        "journal": {
            "folder": str(folder),
            "flush_s": random.choice((0.005, 0.02, 0.1)),
            "durability": random.choice(("interval", "batch")),
        },
        "limits": {
            "participants_max": 16, "sessions_max": 16, "window_ticks": 128, "staged_rows_max": 1024, "bulk_rows_max": 64,
            "message_bytes_max": 8192, "session_out_bytes": random.choice((1024, 8192)), "trades_kept": 50,
            "outbound_messages_max": random.choice((20, 1000)), "messages_per_s_max": random.choice((0, 0, 0, 2000)),
        },
        "intervals": {"heartbeat_s": 0.05, "silence_s": 0.6, "time_s": 0.05, "drain_messages": random.choice((1, 4, 1024))},
    }  # fmt: skip
    config = load_config(None, overrides)
    rows = random.choice(
        (64, 128, 400)
    )  # files are small, so that they end often; the configuration does not allow that
    # the process that compresses would be a real one, beside the simulated world
    journal = config.journal.model_copy(update={"segment_rows": rows, "compress": False})
    chosen = {name: rate for name, rate in FAULTS.items() if random.random() < 0.35}
    weather = Weather(delay_ns=random.choice((50_000, 500_000, 3_000_000)))
    if random.random() < 0.5:
        weather.cuts = 0.002
    if random.random() < 0.3:
        weather.tampers = True
        weather.lost, weather.repeated, weather.reordered = (random.choice((0.0, 0.01, 0.03)) for _ in range(3))
    return Plan(
        config.model_copy(update={"journal": journal}),
        random.randint(2, 4),
        random.randint(100, 350),
        weather,
        chosen,
        fees,
    )
