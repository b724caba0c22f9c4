"""What commands share at the terminal: errors in one sentence, tables."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import typer


@contextlib.contextmanager
def told(*errors: type[Exception], code: int = 2) -> Iterator[None]:
    """Errors of these kinds end the command with their sentence, not with a traceback."""
    try:
        yield
    except errors as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(code) from None


def writable(folder: Path) -> None:
    """Find out that results cannot be written before computing them."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        typer.echo(f"cannot write to {folder}: {error.strerror}", err=True)
        raise typer.Exit(2) from None


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Refuse to work in a folder where another process does; the system forgets it when that one ends, however."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ValueError(f"another command is at work in {folder}: wait for it, or give another folder") from None
    else:
        yield
    finally:
        os.close(descriptor)


def print_table(console: object, rows: list[list[str]]) -> None:
    """Rows under a first one of names."""
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
