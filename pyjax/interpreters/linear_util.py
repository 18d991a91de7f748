"""Functions with transformations applied to them, as values: compared, remembered, called later.

A transformation wraps a function, and may report something about a call beside its result
(auxiliary output: the structure of a pytree, say), which goes to a store that is read when the call
is over. Transformations of pyjax take functions as they are; this is for libraries that build their
own. Layer: interpreters.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Hashable
from typing import Any

from pyjax._config.registry import trace_context
from pyjax.core.debug_info import DebugInfo
from pyjax.core.source_info import function_name
from pyjax.core.weak_tables import PerFunction
from xla_backend.process.bounded_cache import BoundedCache, Budget


class StoreException(Exception):
    """A store that was read before it was filled, or filled twice.

    >>> def nothing(): ...
    >>> _, out = transformation_with_aux(lambda: iter(()))(wrap_init(nothing))
    >>> try:
    ...     out()
    ... except StoreException as error:
    ...     print(error)
    Store empty
    """


class Store:
    """A place for one auxiliary output of one call."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: list[Any] = []

    def store(self, value: Any) -> None:
        """Fill it.

        Raises:
          StoreException: there is a value already.
        """
        if self._values:
            raise StoreException("Store occupied")
        self._values = [value]

    @property
    def val(self) -> Any:
        """What was stored.

        Raises:
          StoreException: nothing was.
        """
        if not self._values:
            raise StoreException("Store empty")
        return self._values[0]

    def __bool__(self) -> bool:
        return bool(self._values)


class WrappedFun:
    """A function, and what is applied to it, the outermost last. Equal if all of that is.

    Attributes:
      f: the function.   transforms: pairs of transformation and its parameters.
      stores: for each transformation, where its auxiliary output goes, or None.
      params: pairs of name and value, given to `wrap_init`.   debug_info: for messages, or None.

    >>> fun = wrap_init(abs)
    >>> isinstance(fun, WrappedFun), fun.call_wrapped(-3)
    (True, 3)
    """

    __slots__ = ("debug_info", "f", "params", "stores", "transforms")

    def __init__(
        self,
        f: Callable[..., Any],
        transforms: tuple[tuple[Callable[..., Any], tuple[Any, ...]], ...] = (),
        stores: tuple[Store | None, ...] = (),
        params: tuple[tuple[str, Hashable], ...] = (),
        debug_info: DebugInfo | None = None,
    ) -> None:
        self.f = f
        self.transforms = transforms
        self.stores = stores
        self.params = params
        self.debug_info = debug_info

    @property
    def __name__(self) -> str:
        return function_name(self.f)

    def wrap(
        self, gen: Callable[..., Any], gen_static_args: tuple[Any, ...], out_store: Store | None
    ) -> WrappedFun:
        """With one more transformation."""
        transforms = (*self.transforms, (gen, gen_static_args))
        stores = (*self.stores, out_store)
        return WrappedFun(self.f, transforms, stores, self.params, self.debug_info)

    def populate_stores(self, stores: tuple[Store | None, ...]) -> None:
        """Fill the stores as those of another call were."""
        for mine, other in zip(self.stores, stores):
            if mine is not None and other is not None:
                mine.store(other.val)

    def call_wrapped(self, *args: Any, **kwargs: Any) -> Any:
        """Call it."""
        called: Callable[..., Any] = functools.partial(self.f, **dict(self.params))
        for (gen, static), store in zip(self.transforms, self.stores):
            stores = () if store is None else (store,)
            called = functools.partial(gen, called, *stores, *static)
        return called(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WrappedFun):
            return NotImplemented
        return (self.f, self.transforms, self.params) == (other.f, other.transforms, other.params)

    def __hash__(self) -> int:
        return hash((self.f, self.transforms, self.params))

    def __repr__(self) -> str:
        names = [function_name(gen) for gen, _ in reversed(self.transforms)]
        return f"WrappedFun({' of '.join([*names, self.__name__])})"


def wrap_init(
    f: Callable[..., Any], params: dict[str, Any] | None = None, *, debug_info: Any = None
) -> WrappedFun:
    """A function without transformations; `params` are keyword arguments of every call.

    >>> wrap_init(lambda x, n: x + n, {"n": 2}).call_wrapped(1)
    3
    """
    items = () if params is None else tuple(sorted(params.items()))
    return WrappedFun(f, params=items, debug_info=debug_info)


_Made = Callable[..., Any]


def transformation2(gen: Callable[..., Any], *fun_and_static: Any) -> Any:
    """Apply a transformation: `gen(f, *static, *args, **kwargs)` calls `f` and returns the result.

    As a decorator it makes a function of `(fun, *static)` out of `gen`.

    >>> @transformation2
    ... def scaled(f, by, *args):
    ...     return f(*[a * by for a in args])
    >>> scaled(wrap_init(lambda x, y: x + y), 10).call_wrapped(1, 2)
    30
    """
    if not fun_and_static:
        return functools.partial(transformation2, gen)
    fun, *static = fun_and_static
    return fun.wrap(gen, tuple(static), None)


def transformation_with_aux2(gen: Callable[..., Any], *fun_and_static: Any) -> Any:
    """The same by `gen(f, store, *static, *args, **kwargs)`, which calls `store.store(aux)`.

    Returns:
      The function, and a function without arguments that gives `aux` when it has been called.

    >>> @transformation_with_aux2
    ... def counted(f, store, *args):
    ...     store.store(len(args))
    ...     return f(*args)
    >>> fun, count = counted(wrap_init(lambda *xs: sum(xs)))
    >>> fun.call_wrapped(1, 2, 3), count()
    (6, 3)
    """
    if not fun_and_static:
        return functools.partial(transformation_with_aux2, gen)
    fun, *static = fun_and_static
    store = Store()
    return fun.wrap(gen, tuple(static), store), lambda: store.val


def transformation(gen: Callable[..., Generator[Any, Any, None]], *fun_and_static: Any) -> Any:
    """`transformation2` by a generator: `gen(*static, *args, **kwargs)` yields the arguments of the
    call, `(args, kwargs)`, is sent the result, and yields that of the transformed function.

    >>> @transformation
    ... def doubled(*args):
    ...     result = yield args, {}
    ...     yield 2 * result
    >>> doubled(wrap_init(lambda x: x + 1)).call_wrapped(1)
    4
    """
    return transformation2(_of_generator(gen), *fun_and_static)


def transformation_with_aux(
    gen: Callable[..., Generator[Any, Any, None]], *fun_and_static: Any
) -> Any:
    """`transformation_with_aux2` by a generator, which yields `(result, aux)` in the end.

    >>> @transformation_with_aux
    ... def counted(*args):
    ...     result = yield args, {}
    ...     yield result, len(args)
    >>> fun, count = counted(wrap_init(max))
    >>> fun.call_wrapped(1, 5, 3), count()
    (5, 3)
    """
    return transformation_with_aux2(_of_generator_with_aux(gen), *fun_and_static)


@functools.lru_cache(maxsize=1024)
def _of_generator(gen: Callable[..., Generator[Any, Any, None]]) -> _Made:
    @functools.wraps(gen)
    def transformed(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return _stepped(gen, f, args, kwargs)

    return transformed


@functools.lru_cache(maxsize=1024)
def _of_generator_with_aux(gen: Callable[..., Generator[Any, Any, None]]) -> _Made:
    @functools.wraps(gen)
    def transformed(f: Callable[..., Any], store: Store, *args: Any, **kwargs: Any) -> Any:
        result, aux = _stepped(gen, f, args, kwargs)
        store.store(aux)
        return result

    return transformed


def _stepped(
    gen: Callable[..., Generator[Any, Any, None]],
    f: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    steps = gen(*args, **kwargs)
    inner_args, inner_kwargs = next(steps)
    result = steps.send(f(*inner_args, **inner_kwargs))
    steps.close()
    return result


def merge_linear_aux(aux1: Callable[[], Any], aux2: Callable[[], Any]) -> tuple[bool, Any]:
    """Which of two auxiliary outputs there is: (whether it is the first, the output).

    Raises:
      StoreException: both or neither.

    >>> @transformation_with_aux
    ... def counted(*args):
    ...     yield (yield args, {}), len(args)
    >>> _, unused = counted(wrap_init(max))
    >>> fun, count = counted(wrap_init(max))
    >>> fun.call_wrapped(1, 5, 3), merge_linear_aux(unused, count)
    (5, (False, 3))
    """
    found = []
    for is_first, aux in ((True, aux1), (False, aux2)):
        try:
            found.append((is_first, aux()))
        except StoreException:
            continue
    if len(found) != 1:
        raise StoreException("both stores occupied" if found else "neither store occupied")
    return found[0]


_REMEMBERED = Budget("calls of wrapped functions", entries=4096)


def cache(call: Callable[..., Any], *, explain: Any = None) -> Callable[..., Any]:
    """Remember `call(fun, *args)` for wrapped functions that are equal, hashable `args`, and the
    options in force; what the call stored is stored again.

    `cache_clear()` of what it returns forgets everything, `evict_function(f)` what is known of `f`.

    >>> calls = []
    >>> @cache
    ... def run(fun, x):
    ...     calls.append(x)
    ...     return fun.call_wrapped(x)
    >>> run(wrap_init(abs), -3), run(wrap_init(abs), -3), calls
    (3, 3, [-3])
    """
    table = PerFunction(lambda: BoundedCache[Any, Any](_REMEMBERED))
    tables = [table]

    @functools.wraps(call)
    def remembered(fun: WrappedFun, *args: Any) -> Any:
        of_function = tables[0].of(fun.f)
        key = (fun.transforms, fun.params, args, trace_context())
        found = of_function.find(key)
        if found is not None:
            result, stores = found
            fun.populate_stores(stores)
            return result
        result = call(fun, *args)
        of_function.put(key, (result, fun.stores))
        return result

    def cache_clear() -> None:
        tables[0] = PerFunction(lambda: BoundedCache[Any, Any](_REMEMBERED))

    remembered.cache_clear = cache_clear  # type: ignore[attr-defined]
    remembered.evict_function = lambda f: tables[0].of(f).clear()  # type: ignore[attr-defined]
    return remembered
