"""The command line; it parses, calls, and prints."""

from typing import Annotated

import typer

from fsgmcmc.cli import experiments, tables

app = typer.Typer(
    help="Bayesian neural networks sampled in function space.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command(cls=tables.FitCommand)(tables.fit)
for command in (tables.predict, tables.evaluate, tables.info):
    app.command()(command)
app.command(cls=experiments.DemoCommand)(experiments.demo)
app.command()(experiments.bench)
app.add_typer(experiments.reproduce_app, name="reproduce")
app.add_typer(experiments.data_app, name="data")


def _print_version(requested: bool) -> bool:
    if requested:
        from fsgmcmc import __version__

        typer.echo(__version__)
        raise typer.Exit
    return requested


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Bayesian neural networks sampled in function space."""
