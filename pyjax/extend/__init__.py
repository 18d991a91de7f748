"""Names for libraries that build on the internals."""

from typing import Any

from pyjax.extend import backend as backend
from pyjax.extend import core as core
from xla_backend.process.on_first_use import import_now as _import_now

_ON_DEMAND = frozenset({"linear_util", "random", "source_info_util"})


def __getattr__(name: str) -> Any:
    if name in _ON_DEMAND:
        return _import_now(f"pyjax.extend.{name}")
    raise AttributeError(f"module 'pyjax.extend' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_ON_DEMAND})
