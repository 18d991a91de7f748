"""Passes by name: those of this package, and those that users register at run time.

Built-in passes need no registration: every class in `xla_backend.passes` that has a `name` is found
by it. XLA's own names of the same passes are accepted too ("algsimp").
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TypeGuard

from xla_backend.hlo.errors import HloError
from xla_backend.passes.base import HloPass, Pipeline
from xla_backend.process.on_first_use import on_first_use
from xla_backend.user_passes import UserPass, set_user_passes, user_passes

# For who names passes.
_close_matches = on_first_use("difflib", "get_close_matches")
_modules_in = on_first_use("pkgutil", "iter_modules")

PassFactory = Callable[[], HloPass]

# XLA's names of passes that have other names here.
XLA_NAMES = {
    "algsimp": "algebraic-simplifier",
    "batchnorm_expander": "batch-norm-expander",
    "constant_folding": "constant-folding",
    "cpu-all-reduce-combiner": "all-reduce-combiner",
    "cse_barrier_expander": "opt-barrier-elimination",
    "flatten-call-graph": "call-graph-flattener",
    "map-inline": "map-inliner",
    "scan_expander": "scan-expander",
    "simplify-conditional": "conditional-simplifier",
    "simplify-sorts": "sort-simplifier",
    "simplify-while-loops": "while-loop-simplifier",
    "stochastic_convert_decomposer": "stochastic-convert-decomposer",
    "while-loop-trip-count-annotator": "while-trip-count-annotator",
    "zero_sized_hlo_elimination": "zero-sized-elimination",
}

# Passes of XLA:CPU that this compiler has no counterpart for: naming one is no mistake.
XLA_ONLY = frozenset(
    """
    all-reduce-promotion all_to_all_decomposer apply-xla-transforms associative-scan-rewriter
    async-collective-replacer batched_gather_scatter_normalizer
    bitcast_dtypes_expander broadcast_canonicalizer change-op-data-type cholesky_expander
    comparison-expander conditional-canonicalizer conditional-to-select control-dep-rewriter
    convolution-canonicalization convolution-group-converter
    cpu-parallel-task-assigner dot-library-rewriter
    dynamic-index-splitter dynamic_padder eigh_expander fusion-wrapper gather_expander
    gemv-rewriter layout-assignment literal-canonicalizer logistic-expander
    operand_upcaster optimize_input_output_buffer_alias propagate-call-metadata qr_expander
    reduce-decomposer reduce-window-resizer reduce-window-rewriter reshape-decomposer
    result_caster scatter_expander
    select_and_scatter_expander shape-canonicalizer
    small-while-loop-hoisting strip-memory-placement-annotations
    sub-byte-size-setter topk-rewriter tree_reduction_rewriter
    triangular_solve_expander while-loop-constant-sinking
    """.split()
)


class UnknownPassError(HloError, ValueError):
    """No pass has this name."""


@cache
def builtin_passes() -> dict[str, type[HloPass]]:
    """Every pass of this package and of the partitioner's, by name.

    Raises:
      HloError: two classes have one name.
    """
    found: dict[str, type[HloPass]] = {}
    for name in _names_of_modules():
        module = importlib.import_module(name)
        for item in vars(module).values():
            if _is_pass_of(item, module.__name__):
                known = found.setdefault(item.name, item)
                if known is not item:
                    raise HloError(f"{known.__qualname__} and {item.__qualname__} share a name")
    return dict(sorted(found.items()))


def _names_of_modules() -> Iterator[str]:
    for package in map(importlib.import_module, ("xla_backend.passes", "xla_backend.spmd")):
        for info in _modules_in(package.__path__):
            yield f"{package.__name__}.{info.name}"


def _is_pass_of(item: object, module: str) -> TypeGuard[type[HloPass]]:
    if not (inspect.isclass(item) and issubclass(item, HloPass)):
        return False
    return item.__module__ == module and bool(item.name)


def _needed_arguments(factory: PassFactory) -> list[str]:
    parameters = inspect.signature(factory).parameters.values()
    varying = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.default is p.empty and p.kind not in varying]


def pass_names() -> list[str]:
    """Names of all passes, built in and registered."""
    return sorted({*builtin_passes(), *(p.name for p in user_passes())})


def canonical_name(name: str) -> str:
    """The name of a pass here, where XLA calls it otherwise."""
    if name in builtin_passes() or any(p.name == name for p in user_passes()):
        return name
    kebab = name.replace("_", "-")
    return XLA_NAMES.get(name, kebab if kebab in builtin_passes() else name)


def make_pass(name: str) -> HloPass:
    """A new pass of this name.

    Raises:
      UnknownPassError: no such pass; the message has the closest names.
      ValueError: a pass that needs arguments, which a target's pipeline gives it.
    """
    name = canonical_name(name)
    for user_pass in user_passes():
        if user_pass.name == name:
            return user_pass.factory()
    factory = builtin_passes().get(name)
    if factory is None:
        raise unknown_pass(name, pass_names())
    needed = _needed_arguments(factory)
    if needed:
        raise ValueError(
            f"pass {name!r} cannot be made by name alone: {factory.__name__} needs "
            f"{', '.join(needed)}; take the one in a target's pipeline"
        )
    return factory()


def unknown_pass(name: str, known: Iterable[str], origin: str = "") -> UnknownPassError:
    """The error for a name that is none of `known`."""
    close = _close_matches(name, [*known, *XLA_NAMES], n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}?" if close else "see xla_backend.pass_names()"
    where = f" in {origin}" if origin else ""
    return UnknownPassError(f"no pass is called {name!r}{where}; {hint}")


def checked_names(names: Iterable[str], pipelines: Iterable[str], origin: str) -> frozenset[str]:
    """Canonical names of passes from a flag. XLA's passes without a counterpart are left out.

    Args:
      pipelines: names of phases, which may be given like passes.
    Raises:
      UnknownPassError: a name that neither this compiler nor XLA knows.
    """
    known = {*pass_names(), *pipelines}
    result = set()
    for name in names:
        here = canonical_name(name)
        if here in known:
            result.add(here)
        elif name not in XLA_ONLY:
            raise unknown_pass(name, known, origin)
    return frozenset(result)


def register_pass(
    factory: PassFactory,
    *,
    after: str | None = None,
    before: str | None = None,
    phase: str | None = None,
) -> UserPass:
    """Make a pass part of every compilation from now on. It is verified after each run.

    Args:
      factory: a subclass of HloPass, or a function that makes the pass.
      after, before: name of the pass it runs next to (its first place in the pipeline).
      phase: name of a nested pipeline ("simplification") it runs at the end of. One of the three
        at most; by default it runs before fusion.
    Returns:
      The registration: pass it to `unregister_pass`, or use it in a `with` statement, at whose
      end it goes.
    Raises:
      UnknownPassError: `after` or `before` names no pass.
      ValueError: the pass has no name, or one that is taken; more than one place is given.

    >>> class NothingPass(HloPass):
    ...     name = "nothing"
    ...     def run_on_computation(self, computation):
    ...         return False
    >>> with register_pass(NothingPass, after="algsimp"):
    ...     [p.name for p in user_passes()]
    ['nothing']
    """
    places = {"after": after, "before": before, "phase": phase}
    given = {where: anchor for where, anchor in places.items() if anchor is not None}
    if len(given) > 1:
        raise ValueError(f"give one place, not {' and '.join(given)}")
    where, anchor = next(iter(given.items()), ("before", "fusion"))
    name = factory().name
    if not name:
        raise ValueError(f"{factory!r} makes a pass without a name; set `name` in its class")
    if name in pass_names():
        raise ValueError(f"a pass called {name!r} exists already; give yours another name")
    if where != "phase":
        anchor = canonical_name(anchor)
        if anchor not in pass_names():
            raise unknown_pass(anchor, pass_names())
    registration = UserPass(factory, name, where, anchor)
    set_user_passes((*user_passes(), registration))
    return registration


def unregister_pass(registration: UserPass | str) -> None:
    """Take a registered pass out again, by its registration or its name.

    Raises:
      UnknownPassError: it is not registered.
    """
    name = registration if isinstance(registration, str) else registration.name
    kept = tuple(p for p in user_passes() if p.name != name)
    if len(kept) == len(user_passes()):
        raise unknown_pass(name, [p.name for p in user_passes()])
    set_user_passes(kept)


def add_user_passes(pipeline: Pipeline) -> None:
    """Put the registered passes where they belong in a pipeline that has just been built.

    Raises:
      UnknownPassError: the pipeline has no such pass or phase.
    """
    for user_pass in user_passes():
        made = user_pass.factory()
        made.verify_always = True
        if not _insert(pipeline, user_pass, made):
            names = [p.name for p in _nodes(pipeline)]
            raise unknown_pass(user_pass.anchor, names, f"pipeline {pipeline.name!r}")


def _insert(pipeline: Pipeline, user_pass: UserPass, made: HloPass) -> bool:
    if user_pass.where == "phase":
        for node in _nodes(pipeline):
            if isinstance(node, Pipeline) and node.name == user_pass.anchor:
                node.passes.append(made)
                return True
        return False
    for i, hlo_pass in enumerate(pipeline.passes):
        if hlo_pass.name == user_pass.anchor:
            pipeline.passes.insert(i + (user_pass.where == "after"), made)
            return True
        if isinstance(hlo_pass, Pipeline) and _insert(hlo_pass, user_pass, made):
            return True
    return False


def _nodes(pipeline: Pipeline) -> Iterable[HloPass]:
    """The pipeline, its passes and nested pipelines."""
    yield pipeline
    for hlo_pass in pipeline.passes:
        if isinstance(hlo_pass, Pipeline):
            yield from _nodes(hlo_pass)
        else:
            yield hlo_pass
