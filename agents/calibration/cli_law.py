"""`serl law`: the impact of an extra metaorder in a simulated market."""

from pathlib import Path

import click


@click.command(epilog="Example: serl law goog.yaml --seeds 20 -o law.json")
@click.argument("population")
@click.option("--shares", default=".001,.003,.01,.03,.1", show_default=True, help="Sizes, in shares of a day's volume.")
@click.option("--seeds", default=20, show_default=True, type=click.IntRange(1), help="Markets; each with and without.")
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0), help="The first of them.")
@click.option(
    "--participation", default=0.15, show_default=True, type=click.FloatRange(0, 0.9, min_open=True),
    help="Share of the volume that the metaorder is (POV).",
)  # fmt: skip
@click.option("--duration", default=0.0, help="Seconds: work every size evenly over this time (TWAP) instead.")
@click.option("-o", "--output", type=click.Path(path_type=Path), default=Path("law.json"), show_default=True)
def law(
    population: str, shares: str, seeds: int, seed: int, participation: float, duration: float, output: Path
) -> None:  # fmt: skip
    """Fits I / sigma = Y (Q / V)^delta to metaorders in markets of POPULATION, each with and without, seed by seed.

    Writes .html, .json and .png of OUTPUT's name.
    """
    from rich.console import Console
    from rich.progress import Progress

    from serl.agents.calibration.simulated_impact import measure_law
    from serl.agents.calibration.simulated_impact_report import table_of, write_law
    from serl.agents.realism.impact_report import parse_shares
    from serl.agents.traders.population import load_population

    config, sizes = load_population(population), parse_shares(shares)
    console = Console()
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("markets", total=seeds * (1 + len(sizes)))
        found = measure_law(
            config, sizes, list(range(seed, seed + seeds)), participation=participation, duration_s=duration,
            advance=lambda: bar.update(task, advance=1),
        )  # fmt: skip
    written = write_law(found, config, output)
    console.print(table_of(found, config.name))
    delta, prefactor = found.law.delta, found.law.prefactor
    for name, estimate in (("delta", delta), ("Y", prefactor)):
        low, high = estimate.interval
        click.echo(f"{name} = {estimate.value:.3f} [{low:.3f}, {high:.3f}]")
    click.echo(f"wrote {', '.join(map(str, written))}")
