"""What the options jax_logging_level and jax_debug_log_modules do to Python's logging.

The package logs under "pyjax" and "xla_backend"; without these options their levels are left alone.
"""

from __future__ import annotations

import logging
import sys

from pyjax._config import options

_PACKAGES = ("pyjax", "xla_backend")
_handler: logging.StreamHandler | None = None
_debugged: list[tuple[logging.Logger, int]] = []


def _set_level(name: str) -> None:
    for package in _PACKAGES:
        logging.getLogger(package).setLevel(getattr(logging, name))


def _debug_modules(text: str) -> None:
    """Show debug messages of the named modules ("pyjax.runtime.dispatch,pyjax.api") on stderr."""
    global _handler
    for logger, level in _debugged:
        logger.setLevel(level)
        if _handler is not None:
            logger.removeHandler(_handler)
    _debugged.clear()
    names = [n.strip() for n in text.split(",") if n.strip()]
    if not names:
        return
    if _handler is None:
        _handler = logging.StreamHandler(sys.stderr)
        _handler.setFormatter(logging.Formatter("%(levelname)s:%(name)s: %(message)s"))
    for name in names:
        logger = logging.getLogger(
            name.replace("jax.", "pyjax.", 1) if name.startswith("jax") else name
        )
        _debugged.append((logger, logger.level))
        logger.setLevel(logging.DEBUG)
        logger.addHandler(_handler)


options.logging_level.on_change(_set_level)
options.debug_log_modules.on_change(_debug_modules)
