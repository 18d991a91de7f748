"""What rows look with."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def error_of(call: Callable[[], Any]) -> str:
    """The exception that `call()` raises, as `Type: message`; empty if it raises none."""
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def warnings_of(call: Callable[[], Any]) -> str:
    """The warnings of `call()`, one a line."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    return "\n".join(f"{w.category.__name__}: {w.message}" for w in found)


class _Keep(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.NOTSET)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname}:{record.name}: {record.getMessage()}")


@contextmanager
def _kept(handler: _Keep) -> Any:
    loggers = [logging.getLogger(name) for name in ("pyjax", "xla_backend")]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)


def records_of(call: Callable[[], Any]) -> str:
    """What the library logs during `call()`, one `LEVEL:logger: message` a line."""
    handler = _Keep()
    with _kept(handler):
        call()
    return "\n".join(handler.lines)


def files_in(folder: Path) -> list[str]:
    """Names of the files below a folder, sorted."""
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
