"""Rows that must fail, for the test of the table: the server with a table of these."""

from __future__ import annotations

import os
import re
import signal

import pyjax
import pyjax.numpy as jnp
from tests.config.effects import server
from tests.config.effects.table import Row

_seen: list[int] = []


def reads_config() -> object:
    return pyjax.config.jax_enable_x64


def reads_values() -> object:
    return pyjax.config.values["jax_enable_x64"]


def explains() -> object:
    return pyjax.config.explain("jax_enable_x64")


def same() -> str:
    return str(jnp.arange(3).ndim)


def wrong() -> str:
    return str(jnp.arange(3.0).dtype)


def dies() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def raises() -> None:
    _ = 1 // 0


def stays() -> list[int]:
    if jnp.arange(3).dtype == "int64" or _seen:
        _seen.append(1)
    return [*_seen]


ANYTHING = re.compile("")
BROKEN = [
    *(Row("jax_enable_x64", True, ANYTHING, ANYTHING, look) for look in (reads_config, explains)),
    *(Row("jax_enable_x64", True, ANYTHING, ANYTHING, look) for look in (reads_values, same)),
    Row("jax_enable_x64", True, "float32", "int8", wrong),
    *(Row("jax_enable_x64", True, ANYTHING, ANYTHING, look) for look in (dies, raises)),
    Row("jax_enable_x64", True, [], [1], stays),
]

if __name__ == "__main__":
    server.ROW_OF = {row.id: row for row in BROKEN}
    server.main()
