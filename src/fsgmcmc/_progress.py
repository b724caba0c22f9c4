"""A progress bar on standard error; without a terminal nothing is shown."""

import sys
from types import TracebackType
from typing import Any


class Progress:
    """A bar for `total` steps with the name of the phase, a note and the remaining time."""

    def __init__(self, show: bool, total: int) -> None:
        self.total = total
        self._bar: Any = None
        if show and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress as RichProgress,
                TextColumn,
                TimeRemainingColumn,
            )

            self._bar = RichProgress(
                TextColumn("{task.description:<9}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[note]}"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )

    def __enter__(self) -> "Progress":
        if self._bar is not None:
            self._bar.start()
            self._task = self._bar.add_task("start", total=self.total, note="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, phase: str, done: int = 0, note: str = "", of: int | None = None) -> None:
        """Update the bar; a phase may have its own number of steps, `of`."""
        if self._bar is not None:
            self._bar.update(self._task, description=phase, completed=done, note=note, total=of or self.total)
