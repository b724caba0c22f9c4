"""Commands of the experiments: demo, bench, data and reproduce."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from fsgmcmc.cli.terminal import alone_in, print_table, told, writable

reproduce_app = typer.Typer(help="The experiments of the paper.", no_args_is_help=True)
data_app = typer.Typer(help="The UCI data sets: fetch and list.", no_args_is_help=True)
fetch_app = typer.Typer(help="Download public data.", no_args_is_help=True)
data_app.add_typer(fetch_app, name="fetch")


def demo(
    out: Annotated[Path, typer.Option(help="Folder for extrapolation.png and extrapolation.json.")],
    seed: Annotated[int, typer.Option(min=0, help="Seed of the data and of the chains.")] = 3,
    chains: Annotated[int, typer.Option(min=1, help="Independent chains of each sampler.")] = 1,
    methods: Annotated[
        str, typer.Option(help="Names joined by commas, of fsgld, fsghmc, sgld, sghmc, fbnn, ifbnn and bbb.")
    ] = "all",
) -> None:
    """The 1-D extrapolation: four samplers and three variational methods against the exact GP posterior."""
    from rich.console import Console

    from fsgmcmc.experiments import extrapolation, names

    console = Console()
    with told(ValueError):
        chosen = names.chosen(methods, extrapolation.METHODS, "method")
    writable(out)
    config = extrapolation.Config(seed=seed, chains=chains)
    result = extrapolation.run(config, chosen, say=lambda text: console.print(f"[dim]{text} …[/dim]"))
    extrapolation.write(result, out)
    print_table(console, extrapolation.table(result))
    console.print(f"[dim]{extrapolation.LEGEND}[/dim]", highlight=False)
    console.print(f"wrote {out / 'extrapolation.png'} and {out / 'extrapolation.json'}", highlight=False)


def bench(
    out: Annotated[Path, typer.Option(help="File for the records, as JSON.")],
    peers: Annotated[bool, typer.Option(help="Also time PyTorch and posteriors (needs the bench extra).")] = False,
    repeats: Annotated[int, typer.Option(min=1, help="Rounds over all programs.")] = 25,
) -> None:
    """Microseconds an iteration of every sampler, of the bare gradient, and of the peers."""
    from rich.console import Console

    from fsgmcmc.experiments import benchmark

    console = Console()
    writable(out.parent)
    with told(ImportError), console.status("starting") as status:
        document = benchmark.run(repeats, peers, say=status.update)
    benchmark.write(document, out)
    print_table(console, benchmark.table(document))
    for name, seconds in document["startup"].items():
        console.print(f"{name}: {seconds:.1f}", highlight=False)


@fetch_app.command("uci")
def fetch_uci(
    data: Annotated[
        Path | None, typer.Option(help="Folder for UCI_Datasets; else FSGMCMC_DATA, else the cache.")
    ] = None,
) -> None:
    """Download the seven UCI regressions with their splits."""
    from fsgmcmc import data as sets

    with told(OSError, ValueError):
        typer.echo(f"the sets are in {sets.fetch_uci(data) / 'UCI_Datasets'}")


@data_app.command("list")
def list_sets(
    data: Annotated[
        Path | None, typer.Option(help="Folder with UCI_Datasets; else FSGMCMC_DATA, else the cache.")
    ] = None,
) -> None:
    """The UCI sets that are here: rows, features, splits."""
    from rich.console import Console

    from fsgmcmc import data as sets

    with told(OSError, ValueError):
        tables = [sets.load_uci(name, data) for name in sets.available(data)]
    rows = [[table.name, *map(str, table.x.shape), str(len(table.splits))] for table in tables]
    print_table(Console(), [["name", "rows", "features", "splits"], *rows])


@reproduce_app.command("uci")
def reproduce_uci(
    out: Annotated[Path, typer.Option(help="Folder for uci.json, uci.csv, uci.md and uci.png.")],
    preset: Annotated[str, typer.Option(help="tuned, paper or quick.")] = "tuned",
    datasets: Annotated[str, typer.Option(help="Names joined by commas.")] = "all",
    splits: Annotated[str, typer.Option(help="A number of splits, or split numbers joined by commas.")] = "10",
    methods: Annotated[
        str, typer.Option(help="Names joined by commas; also bbb, fbnn and ifbnn, or all.")
    ] = "sgld,fsgld,sghmc,fsghmc,gp,map-ensemble",
    jobs: Annotated[int, typer.Option(min=1, help="Worker processes, each on a core of its own.")] = 2,
    data: Annotated[Path | None, typer.Option(help="The folder that holds UCI_Datasets.")] = None,
    samples: Annotated[int | None, typer.Option(min=1, help="Ablation: draws kept of each chain.")] = None,
    points: Annotated[int | None, typer.Option(min=1, help="Ablation: measurement points.")] = None,
    kernel: Annotated[str | None, typer.Option(help="Ablation: a kernel such as linear or 'rbf + matern32'.")] = None,
    pretraining: Annotated[int | None, typer.Option(min=0, help="Ablation: iterations; 0 is none.")] = None,
    gaussian: Annotated[bool, typer.Option(help="Ablation: noise without heavy tails.")] = False,
) -> None:
    """UCI regression; what is finished already in OUT is not done again."""
    from fsgmcmc.experiments import uci_sweep

    changes = {"draws": samples, "points": points, "kernel": kernel, "pretraining": pretraining}
    changes["heavy_tails"] = False if gaussian else None
    with told(OSError, ValueError):
        plan = uci_sweep.plan(preset, datasets, splits, methods, data, changes)
    _sweep(out, "uci", lambda: uci_sweep.execute(plan, out, jobs), uci_sweep.write, plan.note)


@reproduce_app.command("images")
def reproduce_images(
    out: Annotated[Path, typer.Option(help="Folder for images.json, images.csv, images.md and images.png.")],
    preset: Annotated[str, typer.Option(help="quick, tuned or paper (ResNet-18, for an accelerator).")] = "quick",
    datasets: Annotated[str, typer.Option(help="Of mnist, fashion and cifar10, joined by commas.")] = "mnist,fashion",
    seeds: Annotated[int, typer.Option(min=1, help="Seeds, each with its own training images and chains.")] = 3,
    methods: Annotated[
        str, typer.Option(help="Names joined by commas; also bbb, fbnn and ifbnn, or all.")
    ] = "sgld,fsgld,sghmc,fsghmc,gp",
    jobs: Annotated[
        int, typer.Option(min=1, help="Worker processes, each on a core of its own; 1 for an accelerator.")
    ] = 2,
    data: Annotated[Path | None, typer.Option(help="The folder that holds the image sets.")] = None,
    images: Annotated[int | None, typer.Option(min=100, help="Training images instead of the preset's.")] = None,
    half: Annotated[bool, typer.Option(help="Compute in bfloat16, for accelerators.")] = False,
    stream: Annotated[bool, typer.Option(help="Leave the training images on the host.")] = False,
) -> None:
    """Image classification and foreign images; what is finished already in OUT is not done again."""
    from fsgmcmc.experiments import images_sweep

    changes = {"images": images, "half": half or None, "stream": stream or None}
    with told(OSError, ValueError):
        plan = images_sweep.plan(preset, datasets, seeds, methods, data, out, changes)
    _sweep(out, "images", lambda: images_sweep.execute(plan, out, jobs), images_sweep.write, plan.note)


@reproduce_app.command("bandit")
def reproduce_bandit(
    out: Annotated[Path, typer.Option(help="Folder for bandit.json, bandit.csv, bandit.md and bandit.png.")],
    preset: Annotated[str, typer.Option(help="paper, tuned or quick.")] = "paper",
    methods: Annotated[
        str, typer.Option(help="Names joined by commas; also sghmc, fsghmc, fbnn, ifbnn, and references, or all.")
    ] = "fsgld,sgld,bbb,uniform",
    seeds: Annotated[int, typer.Option(min=1, help="Games of every kind.")] = 3,
    patterns: Annotated[str, typer.Option(help="Probabilities that poison hurts, joined by commas.")] = "0.4,0.5,0.6",
    jobs: Annotated[int, typer.Option(min=1, help="Worker processes, each on a core of its own.")] = 2,
    data: Annotated[Path | None, typer.Option(help="The folder that holds mushroom.")] = None,
) -> None:
    """Thompson sampling on Mushroom; what is finished already in OUT is not done again."""
    from fsgmcmc.experiments import bandit_sweep

    with told(OSError, ValueError):
        plan = bandit_sweep.plan(preset, patterns, seeds, methods, data)
    _sweep(out, "bandit", lambda: bandit_sweep.execute(plan, out, jobs), bandit_sweep.write, plan.note)


def _sweep(
    out: Path,
    name: str,
    execute: Callable[[], list[dict[str, Any]]],
    write: Callable[[list[dict[str, Any]], Path, str], None],
    note: str,
) -> None:
    """Do a planned sweep and write its results."""
    from fsgmcmc.experiments import sweep

    writable(out)
    try:
        with told(ValueError), told(sweep.SweepError, OSError, code=1), alone_in(out):
            records = execute()
            write(records, out, note)
    except KeyboardInterrupt:
        typer.echo("interrupted; the same command goes on where this one stopped", err=True)
        raise typer.Exit(130) from None
    diverged = sum(record["diverged"] for record in records)
    files = f"{name}.md, {name}.png, {name}.csv and {name}.json"
    typer.echo(f"{len(records)} runs, {diverged} diverged; wrote {files} to {out}")
