"""Names for libraries that build on the internals."""

import importlib
from typing import Any

from pyjax.extend import backend as backend
from pyjax.extend import core as core

_ON_DEMAND = frozenset({"linear_util", "random", "source_info_util"})


def __getattr__(name: str) -> Any:
    if name in _ON_DEMAND:
        return importlib.import_module(f"pyjax.extend.{name}")
    raise AttributeError(f"module 'pyjax.extend' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_ON_DEMAND})
