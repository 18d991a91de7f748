"""Files and printing, done by NumPy: save, savez, load, array_repr, array_str, print options."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from pyjax.core import dtypes
from pyjax.numpy.array_constructors import asarray

__all__ = [
    "array_repr",
    "array_str",
    "get_printoptions",
    "load",
    "printoptions",
    "save",
    "savez",
    "set_printoptions",
]


def save(file: Any, arr: Any, allow_pickle: bool = True) -> None:
    """Save one array to a .npy file.

    >>> import io
    >>> file = io.BytesIO()
    >>> jnp.save(file, jnp.arange(3))
    >>> np.load(io.BytesIO(file.getvalue())).tolist()
    [0, 1, 2]
    """
    np.save(file, np.asarray(arr), allow_pickle=allow_pickle)


def savez(file: Any, *args: Any, allow_pickle: bool = True, **kwds: Any) -> None:
    """Save several arrays to one .npz file, by position (arr_0...) or keyword.

    >>> import io
    >>> file = io.BytesIO()
    >>> jnp.savez(file, jnp.arange(3), bias=jnp.ones(2))
    >>> sorted(jnp.load(io.BytesIO(file.getvalue())))
    ['arr_0', 'bias']
    """
    np.savez(
        file,
        *map(np.asarray, args),
        allow_pickle=allow_pickle,
        **{k: np.asarray(v) for k, v in kwds.items()},
    )


def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """Load a .npy file as an Array, or a .npz file as NumPy's lazy mapping of NumPy arrays.

    Files have no name for bfloat16, and call it two bytes of anything ('V2'): those are read as
    bfloat16.

    >>> import io
    >>> file = io.BytesIO()
    >>> jnp.save(file, jnp.ones(2, jnp.bfloat16))
    >>> _ = file.seek(0)
    >>> jnp.load(file)
    Array([1, 1], dtype=bfloat16)
    """
    out = np.load(file, *args, **kwargs)
    if not isinstance(out, np.ndarray):
        return out
    return asarray(out.view(dtypes.bfloat16) if out.dtype == np.dtype("V2") else out)


def array_repr(
    arr: Any,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """Text of an array as `repr` shows it.

    >>> jnp.array_repr(jnp.arange(3.0))
    'array([0., 1., 2.], dtype=float32)'
    """
    return np.array_repr(np.asarray(arr), max_line_width, precision, suppress_small)


def array_str(
    a: Any,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """Text of an array as `str` shows it.

    >>> jnp.array_str(jnp.arange(3))
    '[0 1 2]'
    """
    return np.array_str(np.asarray(a), max_line_width, precision, suppress_small)


def set_printoptions(*args: Any, **kwargs: Any) -> None:
    """Set NumPy's print options, which arrays follow.

    >>> jnp.set_printoptions(precision=2)
    >>> jnp.array([0.123456, 1.0])
    Array([0.12, 1.  ], dtype=float32)
    >>> jnp.set_printoptions(precision=8)
    """
    np.set_printoptions(*args, **kwargs)


def get_printoptions() -> dict[str, Any]:
    """The print options in use.

    >>> jnp.get_printoptions()["threshold"]
    1000
    """
    return dict(np.get_printoptions())


def printoptions(*args: Any, **kwargs: Any) -> AbstractContextManager[Any]:
    """Context manager that sets print options.

    >>> with jnp.printoptions(precision=2):
    ...     print(jnp.array([0.123456, 1.0]))
    [0.12 1.  ]
    """
    return np.printoptions(*args, **kwargs)
