"""Commands for tables: fit, predict, evaluate and info."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fsgmcmc.cli.terminal import exit_on, locked, print_table, with_late_help, writable

if TYPE_CHECKING:
    from fsgmcmc.tabular.model import HoldoutResult, TableModel

# In the model folder until the fit is finished.
CHECKPOINT = "unfinished.npz"
SCORES = {
    "rmse": "RMSE, in units of the target",
    "crps": "CRPS, in units of the target",
    "nll": "NLL, nats per row",
    "coverage_50": "share of rows in 50 % intervals",
    "coverage_90": "share of rows in 90 % intervals",
    "coverage_95": "share of rows in 95 % intervals",
    "width_90": "mean width of 90 % intervals, in units of the target",
    "accuracy": "accuracy",
    "ece": "calibration error (ECE)",
    "brier": "Brier score, 0 to 2",
}
Separator = Annotated[str | None, typer.Option(help="Separator of columns; by default it is detected.")]


def _methods() -> str:
    from fsgmcmc.methods import INFERENCE

    return "; ".join(f"{name}: {method.description}" for name, method in INFERENCE.items()) + "."


FitCommand = with_late_help("method", _methods)


def fit(
    data: Annotated[Path, typer.Argument(help="A CSV file with a header, or a Parquet file.")],
    target: Annotated[str, typer.Option(help="The column to predict.")],
    out: Annotated[Path, typer.Option(help="Folder for the model and its report.")],
    task: Annotated[str, typer.Option(help="regression, classification, or auto: a text target has classes.")] = "auto",
    kernel: Annotated[
        str, typer.Option(help="Kernel of the prior, such as rbf or 'linear + matern52'; auto selects it by evidence.")
    ] = "auto",
    method: Annotated[str | None, typer.Option(help="Inference method; by default the best of a few.")] = None,
    names: Annotated[str | None, typer.Option("--id", help="Column of row names, not used as an input.")] = None,
    drop: Annotated[str, typer.Option(help="Columns to leave out, joined by commas.")] = "",
    holdout: Annotated[float, typer.Option(help="Share of held-out rows for the check; 0 fits all rows.")] = 0.2,
    hidden: Annotated[
        str | None, typer.Option(help="Units of the hidden layers, joined by commas, such as 50,50.")
    ] = None,
    chains: Annotated[int, typer.Option(min=1, help="Number of chains.")] = 4,
    samples: Annotated[int, typer.Option(min=1, help="Draws kept from each chain.")] = 25,
    burn_in: Annotated[int, typer.Option(min=0, help="Steps before the first draw.")] = 3000,
    thinning: Annotated[int, typer.Option(min=1, help="Steps between draws; twice as many up to 1000 rows.")] = 400,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split and of the chains.")] = 0,
    separator: Separator = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted fit.")] = False,
) -> None:
    """Fit a model to a table and check it on held-out rows.

    Ctrl-C stops the fit and keeps the draws so far.
    """
    from fsgmcmc.errors import DivergenceError
    from fsgmcmc.priors import kernel_by_name
    from fsgmcmc.tabular.checks import alarms
    from fsgmcmc.tabular.model import Request, fit_table
    from fsgmcmc.tabular.reading import read_table
    from fsgmcmc.tabular.report import write_report

    checkpoint = out / CHECKPOINT
    with exit_on(OSError, ValueError):
        if out.exists() and not out.is_dir():
            raise ValueError(f"{out} is a file: give a folder for the model")
        others = [path for path in out.iterdir() if not path.name.startswith(".")] if out.is_dir() else []
        if others and not ((out / "model.json").exists() or checkpoint.exists()):
            raise ValueError(f"{out} holds other files: give a new folder for the model")
        frame = read_table(data, separator, names)
        if kernel != "auto":
            kernel_by_name(kernel, 1)
        settings = {"kernel": kernel, "chains": chains, "samples": samples, "burn_in": burn_in, "thinning": thinning}
        settings |= {"progress": True, "checkpoint": checkpoint}
        settings |= {} if method is None else {"method": method}
        settings |= {} if hidden is None else {"hidden": _sizes(hidden)}
        names_of_columns = (drop,) if drop in frame.columns else drop.split(",")
        dropped = tuple(name.strip() for name in names_of_columns if name.strip())
        request = Request(target, task, names, dropped, holdout, seed, tuple(settings.items()))
        if resume and not checkpoint.exists():
            raise ValueError(f"there is nothing to resume in {out}: leave --resume out")
        if checkpoint.exists() and not resume:
            raise ValueError(
                f"{out} holds an unfinished fit: resume it with --resume, or delete {checkpoint} to start again"
            )
    writable(out)
    failures = (OSError, ValueError, DivergenceError)
    try:
        with exit_on(*failures), locked(out), warnings.catch_warnings(record=True) as caught:
            model, held = fit_table(frame, request)
            model.save(out)
            report = write_report(model, held, out, data.name)
    except KeyboardInterrupt:
        remedy = "; the same command with --resume resumes the fit" if checkpoint.exists() else ""
        typer.echo(f"interrupted before a model was saved{remedy}", err=True)
        raise typer.Exit(130) from None
    distinct = dict.fromkeys(str(warning.message) for warning in caught if warning.category is UserWarning)
    _describe(model)
    if held is not None:
        _print_scores(held)
    warned = alarms(model, held) if held is not None else []
    for sentence in (*warned, *model.notes, *distinct, *model.diagnosed):
        typer.echo(f"note: {sentence}")
    typer.echo(f"wrote the model to {out} and its report to {report}")
    if model.estimator.info_["interrupted"]:
        typer.echo("interrupted: the draws so far were kept; the same command with --resume resumes the fit")
        raise typer.Exit(130)
    checkpoint.unlink(missing_ok=True)


def predict(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    data: Annotated[Path, typer.Argument(help="A CSV or Parquet file with the columns of the fit.")],
    out: Annotated[Path, typer.Option(help="File for the predictions, CSV or Parquet by its ending.")],
    coverage: Annotated[float, typer.Option(help="Probability of the interval from lower to upper.")] = 0.9,
    separator: Separator = None,
) -> None:
    """Predict new rows: mean, std and an interval, or the probability of each class."""
    from fsgmcmc.tabular.model import TableModel
    from fsgmcmc.tabular.reading import read_table, write_table

    with exit_on(OSError, ValueError):
        if out.exists() and data.exists() and out.samefile(data):
            raise ValueError(f"{out} is the input table: give another file for the predictions")
        if model.resolve() in out.resolve().parents:
            raise ValueError(f"{out} is in the folder of the model: give another file for the predictions")
        kept = TableModel.load(model)
        frame = read_table(data, separator, kept.id_column)
        predictions = kept.predict(frame, coverage)
        write_table(predictions, out)
    for sentence in kept.columns.filled(frame):
        typer.echo(f"note: {sentence}")
    beyond = int(predictions["extrapolates"].sum())
    typer.echo(f"wrote {len(predictions)} predictions to {out}; {beyond} of the rows extrapolate")


def evaluate(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    data: Annotated[Path, typer.Argument(help="A CSV or Parquet file with the columns of the fit and the target.")],
    separator: Separator = None,
) -> None:
    """Score a model on rows whose target is known."""
    from fsgmcmc.tabular.model import TableModel
    from fsgmcmc.tabular.reading import read_table

    with exit_on(OSError, ValueError):
        kept, frame = TableModel.load(model), read_table(data, separator)
        held = kept.evaluate(frame)
    _print_scores(held)
    for sentence in kept.columns.filled(frame):
        typer.echo(f"note: {sentence}")


def info(model: Annotated[Path, typer.Argument(help="A model folder.")]) -> None:
    """Describe the model in a folder."""
    from fsgmcmc.tabular.model import TableModel

    with exit_on(OSError, ValueError):
        kept = TableModel.load(model)
    _describe(kept)
    if kept.scores:
        rows = [[SCORES[name], f"{value:.4g}"] for name, value in kept.scores.items() if name in SCORES]
        _print([[f"on {kept.held_out} held-out rows", ""], *rows])
    for sentence in (*kept.notes, *kept.diagnosed):
        typer.echo(f"note: {sentence}")


def _sizes(hidden: str) -> tuple[int, ...]:
    try:
        sizes = tuple(int(size) for size in hidden.split(","))
    except ValueError:
        sizes = ()
    if not sizes or min(sizes) < 1:
        raise ValueError(f"--hidden must be whole numbers joined by commas, such as 50,50, got {hidden!r}")
    return sizes


def _describe(model: "TableModel") -> None:
    estimator = model.estimator
    chains, draws = estimator.energy_.shape
    kind = "regression" if model.is_regression else f"classification, {len(estimator.classes_)} classes"
    rows = [
        ["target", f"{model.target} ({kind})"],
        ["fitted to", f"{estimator.n_rows_} distinct rows, {len(model.columns.features)} features"],
        ["prior", str(estimator.kernel_)],
        ["draws", f"{chains} x {draws} by {estimator.method_}"],
    ]
    if model.is_regression:
        rows.append(["noise", f"{estimator.noise_:.4g}"])
    _print([["model", ""], *rows])


def _print_scores(held: "HoldoutResult") -> None:
    rows = [[SCORES[name], f"{value:.4g}"] for name, value in held.scores.items() if name in SCORES]
    _print([[f"on {len(held.y)} rows", ""], *rows])


def _print(rows: list[list[str]]) -> None:
    from rich.console import Console

    print_table(Console(), rows)
