"""pyjax.numpy: NumPy's interface on compiled, differentiable arrays.

The names are those of `_public.py`, which is loaded when one is used first.
"""

from typing import Any as _Any

from xla_backend.process.lazy_names import LazyNames as _LazyNames

_names = _LazyNames(__name__, "pyjax.numpy._public")


def __getattr__(name: str) -> _Any:
    return _names.find(name)


def __dir__() -> list[str]:
    return _names.all()
