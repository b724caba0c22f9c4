"""Shared by the commands: error messages of one sentence, checks of folders, tables."""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperOption


def with_late_help(option: str, text: Callable[[], str]) -> type[TyperCommand]:
    """A command with an option whose help text is computed only when it is printed.

    The registry of methods imports JAX, which takes seconds.
    """

    class LateHelp(TyperCommand):
        def format_help(self, *args: Any, **options: Any) -> None:
            for parameter in self.params:
                if isinstance(parameter, TyperOption) and parameter.name == option:
                    parameter.help = text()
            super().format_help(*args, **options)

    return LateHelp


@contextlib.contextmanager
def exit_on(*errors: type[Exception], code: int = 2) -> Iterator[None]:
    """Print errors of these types as one sentence and exit with `code`, instead of a traceback."""
    try:
        yield
    except errors as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(code) from None


def writable(folder: Path) -> None:
    """Exit if results cannot be written to the folder, before they are computed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        typer.echo(f"cannot write to {folder}: {error.strerror}", err=True)
        raise typer.Exit(2) from None


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder, or raise an error if another process has it; the system releases the lock when a process ends."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ValueError(f"another command is running in {folder}: wait for it, or give another folder") from None
    else:
        yield
    finally:
        os.close(descriptor)


def print_table(console: object, rows: list[list[str]]) -> None:
    """Print a table; the first row is the header."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    assert isinstance(console, Console)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for index, name in enumerate(rows[0]):
        table.add_column(name, justify="left" if index == 0 else "right", no_wrap=index == 0)
    for row in rows[1:]:
        table.add_row(*row)
    console.print(table)
