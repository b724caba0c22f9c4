"""Commands of the experiments: demo, bench, data and reproduce."""

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from fsgmcmc.cli.terminal import exit_on, locked, print_table, with_late_help, writable

reproduce_app = typer.Typer(help="The experiments of the paper.", no_args_is_help=True)
data_app = typer.Typer(help="The UCI data sets: fetch and list.", no_args_is_help=True)
fetch_app = typer.Typer(help="Download public data.", no_args_is_help=True)
data_app.add_typer(fetch_app, name="fetch")


def listing(methods: Callable[[], tuple[tuple[str, ...], tuple[str, ...]]]) -> type[TyperCommand]:
    """A command whose help lists all methods of an experiment and the default ones, which `methods` returns."""

    def text() -> str:
        known, default = methods()
        chosen = "all" if default == known else ", ".join(default)
        return f"Names joined by commas, or all: {', '.join(known)}. Default: {chosen}."

    return with_late_help("methods", text)


def _demo_methods() -> tuple[tuple[str, ...], tuple[str, ...]]:
    from fsgmcmc.experiments.extrapolation.config import METHODS

    return METHODS, METHODS


def _uci_methods() -> tuple[tuple[str, ...], tuple[str, ...]]:
    from fsgmcmc.experiments.uci.config import DEFAULT_METHODS
    from fsgmcmc.experiments.uci.run import RUNNERS

    return tuple(RUNNERS), DEFAULT_METHODS


def _images_methods() -> tuple[tuple[str, ...], tuple[str, ...]]:
    from fsgmcmc.experiments.images.config import DEFAULT_METHODS
    from fsgmcmc.experiments.images.run import RUNNERS

    return tuple(RUNNERS), DEFAULT_METHODS


def _bandit_methods() -> tuple[tuple[str, ...], tuple[str, ...]]:
    from fsgmcmc.experiments.bandit.agents import AGENTS
    from fsgmcmc.experiments.bandit.config import DEFAULT_METHODS

    return tuple(AGENTS), DEFAULT_METHODS


DemoCommand = listing(_demo_methods)
Methods = Annotated[str | None, typer.Option(help="Names joined by commas, or all.", show_default=False)]


def demo(
    out: Annotated[Path, typer.Option(help="Folder for extrapolation.png and extrapolation.json.")],
    seed: Annotated[int, typer.Option(min=0, help="Seed of the data and of the chains.")] = 3,
    chains: Annotated[
        int | None, typer.Option(min=1, help="Independent chains of each sampler; by default those of the preset.")
    ] = None,
    preset: Annotated[str, typer.Option(help="tuned, or paper: as printed, with measured steps.")] = "tuned",
    methods: Methods = None,
) -> None:
    """1-D extrapolation: samplers and variational methods compared with the exact GP posterior."""
    from rich.console import Console

    from fsgmcmc.experiments import names
    from fsgmcmc.experiments.extrapolation import config, report, run

    console = Console()
    with exit_on(ValueError):
        chosen = names.chosen(methods or "all", config.METHODS, "method")
        (preset,) = names.chosen(preset, config.PRESETS, "preset")
    writable(out)
    settings = replace(config.PRESETS[preset], seed=seed)
    settings = settings if chains is None else replace(settings, chains=chains)
    result = run.run(settings, chosen, report=lambda text: console.print(f"[dim]{text} …[/dim]"))
    report.write(result, out)
    print_table(console, report.table(result))
    console.print(f"[dim]{report.LEGEND}[/dim]", highlight=False)
    console.print(f"wrote {out / 'extrapolation.png'} and {out / 'extrapolation.json'}", highlight=False)


def bench(
    out: Annotated[Path, typer.Option(help="File for the records, as JSON.")],
    peers: Annotated[bool, typer.Option(help="Also time PyTorch and posteriors (needs the bench extra).")] = False,
    repeats: Annotated[int, typer.Option(min=1, help="Rounds over all programs.")] = 25,
) -> None:
    """Microseconds per iteration of every sampler, of the bare gradient, and of the peers (source checkout only)."""
    from rich.console import Console

    with exit_on(FileNotFoundError):
        speed = _benchmark("speed")
    console = Console()
    writable(out.parent)
    with exit_on(ImportError), console.status("starting") as status:
        document = speed.run(repeats, peers, report=status.update)
    speed.write(document, out)
    print_table(console, speed.table(document))
    for name, seconds in document["startup"].items():
        console.print(f"{name}: {seconds:.1f}", highlight=False)


def _benchmark(name: str) -> ModuleType:
    """A module of the folder `benchmarks`, which is next to `src` and not part of an installed package."""
    import fsgmcmc

    folder = Path(fsgmcmc.__file__).parents[2] / "benchmarks"
    path = folder / f"{name}.py"
    if not path.exists():
        raise FileNotFoundError(
            f"this command needs a source checkout, installed with pip install -e .: there is no {path}"
        )
    if str(folder) not in sys.path:
        sys.path.append(str(folder))  # a benchmark may import others from its folder
    specification = importlib.util.spec_from_file_location(name, path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@fetch_app.command("uci")
def fetch_uci(
    data: Annotated[
        Path | None, typer.Option(help="Folder for UCI_Datasets; by default FSGMCMC_DATA or the cache.")
    ] = None,
) -> None:
    """Download the seven UCI regression data sets with their splits."""
    from fsgmcmc import data as sets

    with exit_on(OSError, ValueError):
        typer.echo(f"the data sets are in {sets.fetch_uci(data) / 'UCI_Datasets'}")


@data_app.command("list")
def list_sets(
    data: Annotated[
        Path | None, typer.Option(help="Folder with UCI_Datasets; by default FSGMCMC_DATA or the cache.")
    ] = None,
) -> None:
    """The UCI data sets that are present: rows, features, splits."""
    from rich.console import Console

    from fsgmcmc import data as sets

    with exit_on(OSError, ValueError):
        tables = [sets.load_uci(name, data) for name in sets.available(data)]
    rows = [[table.name, *map(str, table.x.shape), str(len(table.splits))] for table in tables]
    print_table(Console(), [["name", "rows", "features", "splits"], *rows])


@reproduce_app.command("uci", cls=listing(_uci_methods))
def reproduce_uci(
    out: Annotated[Path, typer.Option(help="Folder for uci.json, uci.csv, uci.md and uci.png.")],
    preset: Annotated[str, typer.Option(help="tuned, paper or quick.")] = "tuned",
    datasets: Annotated[str, typer.Option(help="Names joined by commas.")] = "all",
    splits: Annotated[str, typer.Option(help="A number of splits, or split numbers joined by commas.")] = "10",
    methods: Methods = None,
    jobs: Annotated[int, typer.Option(min=1, help="Worker processes, each on its own core.")] = 2,
    data: Annotated[Path | None, typer.Option(help="The folder that holds UCI_Datasets.")] = None,
    samples: Annotated[int | None, typer.Option(min=1, help="Ablation: draws kept of each chain.")] = None,
    points: Annotated[int | None, typer.Option(min=1, help="Ablation: measurement points.")] = None,
    kernel: Annotated[str | None, typer.Option(help="Ablation: a kernel such as linear or 'rbf + matern32'.")] = None,
    pretraining: Annotated[int | None, typer.Option(min=0, help="Ablation: iterations; 0 is none.")] = None,
    gaussian: Annotated[bool, typer.Option(help="Ablation: Gaussian noise instead of Student's t.")] = False,
) -> None:
    """UCI regression; finished runs in OUT are not run again."""
    from fsgmcmc.experiments.uci import report
    from fsgmcmc.experiments.uci.plan import plan

    changes = {"draws": samples, "points": points, "kernel": kernel, "pretraining": pretraining}
    changes["heavy_tails"] = False if gaussian else None
    with exit_on(OSError, ValueError):
        planned = plan(preset, datasets, splits, methods, data, changes)
    _sweep(planned, "uci", out, jobs, report.write)


@reproduce_app.command("images", cls=listing(_images_methods))
def reproduce_images(
    out: Annotated[Path, typer.Option(help="Folder for images.json, images.csv, images.md and images.png.")],
    preset: Annotated[str, typer.Option(help="quick, tuned or paper (ResNet-18, for an accelerator).")] = "quick",
    datasets: Annotated[str, typer.Option(help="Of mnist, fashion and cifar10, joined by commas.")] = "mnist,fashion",
    seeds: Annotated[int, typer.Option(min=1, help="Seeds, each with its own training images and chains.")] = 3,
    methods: Methods = None,
    jobs: Annotated[int, typer.Option(min=1, help="Worker processes, each on its own core; 1 for an accelerator.")] = 2,
    data: Annotated[Path | None, typer.Option(help="The folder that holds the image sets.")] = None,
    images: Annotated[int | None, typer.Option(min=100, help="Training images instead of the preset's.")] = None,
    half: Annotated[bool, typer.Option(help="Compute in bfloat16, for accelerators.")] = False,
    stream: Annotated[bool, typer.Option(help="Keep the training images on the host.")] = False,
) -> None:
    """Image classification and out-of-distribution images; finished runs in OUT are not run again."""
    from fsgmcmc.experiments.images import report
    from fsgmcmc.experiments.images.plan import plan

    changes = {"images": images, "half": half or None, "stream": stream or None}
    with exit_on(OSError, ValueError):
        planned = plan(preset, datasets, seeds, methods, data, out, changes)
    _sweep(planned, "images", out, jobs, report.write)


@reproduce_app.command("bandit", cls=listing(_bandit_methods))
def reproduce_bandit(
    out: Annotated[Path, typer.Option(help="Folder for bandit.json, bandit.csv, bandit.md and bandit.png.")],
    preset: Annotated[str, typer.Option(help="paper, tuned or quick.")] = "paper",
    methods: Methods = None,
    seeds: Annotated[int, typer.Option(min=1, help="Games of each method and pattern.")] = 3,
    patterns: Annotated[str, typer.Option(help="Probabilities that poison harms, joined by commas.")] = "0.4,0.5,0.6",
    jobs: Annotated[int, typer.Option(min=1, help="Worker processes, each on its own core.")] = 2,
    data: Annotated[Path | None, typer.Option(help="The folder that holds mushroom.")] = None,
) -> None:
    """Thompson sampling on Mushroom; finished games in OUT are not played again."""
    from fsgmcmc.experiments.bandit import report
    from fsgmcmc.experiments.bandit.plan import plan

    with exit_on(OSError, ValueError):
        planned = plan(preset, patterns, seeds, methods, data)
    _sweep(planned, "bandit", out, jobs, report.write)


def _sweep(
    plan: Any, name: str, out: Path, jobs: int, write: Callable[[list[dict[str, Any]], Path, str], None]
) -> None:
    """Execute a planned sweep and write its results."""
    from fsgmcmc.experiments import runner

    writable(out)
    try:
        with exit_on(ValueError), exit_on(runner.SweepError, OSError, code=1), locked(out):
            records = runner.complete(plan, out / "runs", jobs)
            write(records, out, plan.note)
    except KeyboardInterrupt:
        typer.echo("interrupted; the same command resumes this sweep", err=True)
        raise typer.Exit(130) from None
    diverged = sum(record["diverged"] for record in records)
    files = f"{name}.md, {name}.png, {name}.csv and {name}.json"
    typer.echo(f"{len(records)} runs, {diverged} diverged; wrote {files} to {out}")
