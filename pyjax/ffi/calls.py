"""ffi_call: an operation that a function from elsewhere computes. Layer: ffi."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pyjax.core import dtypes
from pyjax.core.avals import ShapedArray, abstractify
from pyjax.core.effects import Effects, io_effect
from pyjax.core.errors import fail
from pyjax.ffi import attributes as ffi_attributes
from pyjax.interpreters.batching import move_bdim, not_mapped
from pyjax.interpreters.hlo import LoweringContext, aval_to_shape
from pyjax.interpreters.rules import FullJvp, Unsupported, define_primitive
from pyjax.lax.callbacks import one_by_one, unmapped
from pyjax.numpy.util import check_arraylike
from xla_backend.hlo.attributes import CustomCallAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape

VMAP_METHODS = (
    "sequential",
    "sequential_unrolled",
    "expand_dims",
    "broadcast_all",
    "legacy_vectorized",
)
TYPED = 4
_API_VERSIONS = {1: None, TYPED: "API_VERSION_TYPED_FFI"}


def ffi_call(
    target_name: str,
    result_shape_dtypes: Any,
    *,
    has_side_effect: bool = False,
    vmap_method: str | None = None,
    input_layouts: Sequence[Any] | None = None,
    output_layouts: Any = None,
    input_output_aliases: Mapping[int, int] | None = None,
    custom_call_api_version: int = TYPED,
    legacy_backend_config: str | None = None,
) -> Callable[..., Any]:
    """A function of arrays that a registered target computes.

    Args:
      target_name: see `register_ffi_target`; it may be registered later, before the first run.
      result_shape_dtypes: what has `.shape` and `.dtype`, for each result: one, or a sequence.
      has_side_effect: calls are neither removed nor merged.
      vmap_method: what vmap does: "sequential" (one call per example), "expand_dims" (one call;
        arguments that are not batched get a leading axis of size 1), "broadcast_all" (they are
        repeated), "legacy_vectorized" (they stay as they are).
      input_layouts, output_layouts: of each operand and result, the dimensions from major to
        minor; only the order of NumPy, 0, 1, 2, …, so far.
      input_output_aliases: which operand (by number) a result (by number) takes over: the function
        finds the operand in the memory of the result.
      custom_call_api_version: 4: handlers with attributes; 1: `void f(void* out, const void** in)`.
      legacy_backend_config: a text in the call, for versions below 4.
    Returns:
      `f(*operands, **attributes)`: attributes are bools, numbers (Python's count as 64 bits),
      strings, NumPy arrays and dicts of these.
    Raises:
      ValueError: unknown vmap_method; numbers of aliases or layouts that do not fit, or of arrays
        that differ; a text for version 4; when it is differentiated.
      TypeError: an attribute of another kind.
      NotImplementedError: other layouts or versions; when it is compiled, if nothing is registered.

    >>> from pyjax import numpy as jnp
    >>> from pyjax.api.eval_shape import ShapeDtypeStruct
    >>> from pyjax.ffi import register_ffi_target
    >>> register_ffi_target("doc.scaled", lambda x, *, by: by * x)
    >>> ffi_call("doc.scaled", ShapeDtypeStruct((2,), "float32"))(jnp.ones(2), by=3.0).tolist()
    [3.0, 3.0]
    """
    _check_choices(vmap_method, custom_call_api_version, legacy_backend_config)
    results, many = _results(result_shape_dtypes)

    def call(*args: Any, **attributes: Any) -> Any:
        check_arraylike("ffi_call", *args)
        avals = [abstractify(x) for x in args]
        _check_layouts("input_layouts", input_layouts, [a.ndim for a in avals])
        layouts = output_layouts
        if layouts is not None and not many:
            layouts = [layouts]
        _check_layouts("output_layouts", layouts, [a.ndim for a in results])
        outs = ffi_call_p.bind(
            *args,
            target_name=target_name,
            result_avals=results,
            has_side_effect=has_side_effect,
            vmap_method=vmap_method,
            input_output_aliases=_checked_aliases(input_output_aliases, avals, results),
            custom_call_api_version=custom_call_api_version,
            legacy_backend_config=legacy_backend_config,
            attributes=ffi_attributes.hashable(attributes),
        )
        return list(outs) if many else outs[0]

    return call


def _check_choices(method: str | None, version: int, config: str | None) -> None:
    if method is not None and method not in VMAP_METHODS:
        raise ValueError(
            f"vmap_method must be on of the allowed methods {[*VMAP_METHODS, None]}, but got: "
            f"{method}"
        )
    if config is not None and version >= TYPED:
        raise ValueError(
            "The use of the legacy_backend_config parameter requires custom_call_api_version < 4; "
            f"got {version}."
        )
    if version not in _API_VERSIONS:
        fail(
            NotImplementedError,
            f"ffi_call: custom_call_api_version is {version}.",
            "functions of versions 2 and 3 report errors through a function that XLA's own library "
            "has; 1 and 4 are known here",
            "Use version 4, and register the function with api_version=1.",
        )


def _results(declared: Any) -> tuple[tuple[Any, ...], bool]:
    many = isinstance(declared, (tuple, list))
    avals = []
    for x in declared if many else [declared]:
        if not (hasattr(x, "shape") and hasattr(x, "dtype")):
            raise TypeError(
                f"ffi_call: result_shape_dtypes has {x!r:.60}, which has no shape and dtype; "
                "write ShapeDtypeStruct(shape, dtype)."
            )
        avals.append(ShapedArray(tuple(x.shape), dtypes.canonicalize_dtype(x.dtype)))
    return tuple(avals), many


def _checked_aliases(
    aliases: Mapping[int, int] | None, inputs: Sequence[Any], results: Sequence[Any]
) -> tuple[tuple[int, int], ...]:
    pairs = tuple(sorted((aliases or {}).items()))
    for i, j in pairs:
        for what, number, count in (("input", i, len(inputs)), ("output", j, len(results))):
            if not 0 <= number < count:
                raise ValueError(
                    f"input_output_aliases contains the mapping '{i}:{j}' with {what} index "
                    f"{number} outside the range [0, {count})."
                )
        if (inputs[i].shape, inputs[i].dtype) != (results[j].shape, results[j].dtype):
            raise ValueError(
                f"input_output_aliases contains the mapping '{i}:{j}' referring to an input with "
                f"abstract value {inputs[i].str_short()} and an output with a different abstract "
                f"value {results[j].str_short()}."
            )
    _check_taken_once(pairs)
    return pairs


def _check_taken_once(pairs: Sequence[tuple[int, int]]) -> None:
    operand_of: dict[int, int] = {}
    for i, j in pairs:
        if operand_of.setdefault(j, i) != i:
            fail(
                ValueError,
                f"input_output_aliases gives output {j} the memory of two inputs, {operand_of[j]} "
                f"and {i}.",
                "a result takes over the memory of one operand",
                "Give each output at most once: {input: output, ...}.",
            )


def _check_layouts(name: str, layouts: Sequence[Any] | None, ranks: Sequence[int]) -> None:
    if layouts is None:
        return
    if len(layouts) != len(ranks):
        raise ValueError(f"ffi_call: {len(layouts)} {name} for {len(ranks)} arrays.")
    for layout, rank in zip(layouts, ranks):
        if layout is None:
            continue
        order = tuple(getattr(layout, "major_to_minor", layout))
        if sorted(order) != list(range(rank)):
            raise ValueError(f"ffi_call: {name} has {order} for an array of rank {rank}.")
        if order != tuple(range(rank)):
            fail(
                NotImplementedError,
                f"ffi_call: {name} has {order}.",
                "arrays are passed in the order of NumPy, with the last dimension together",
                "Transpose the operand or the result in the program.",
            )


def _jvp(primals: Any, tangents: Any, *, target_name: str, **params: Any) -> Any:
    fail(
        ValueError,
        f"The FFI call to `{target_name}` cannot be differentiated.",
        "nothing is known about the derivative of a foreign function.",
        "Wrap the call in custom_jvp or custom_vjp, or apply lax.stop_gradient to its arguments.",
    )


def _batching(
    axis_size: int,
    args: Sequence[Any],
    dims: Sequence[Any],
    *,
    vmap_method: str | None,
    result_avals: tuple[Any, ...],
    input_output_aliases: tuple[tuple[int, int], ...],
    **params: Any,
) -> Any:
    if vmap_method is None:
        fail(
            NotImplementedError,
            "vmap is only supported for the ffi_call primitive when vmap_method is one of "
            f"{', '.join(map(repr, VMAP_METHODS))}. Got vmap_method=None.",
            "it is not known whether the function takes batches.",
            "Pass vmap_method to ffi_call.",
        )
    params["vmap_method"] = vmap_method
    if vmap_method.startswith("sequential"):
        params["input_output_aliases"] = input_output_aliases
        same = {**params, "result_avals": result_avals}
        outs = one_by_one(ffi_call_p, axis_size, args, dims, **same)
        return outs, [0] * len(outs)
    moved = [
        unmapped(x, vmap_method, axis_size) if d is not_mapped else move_bdim(x, d, 0)
        for x, d in zip(args, dims)
    ]
    shapes = [np.shape(x) for x in moved]
    batched = tuple(a.with_dim(0, axis_size) for a in result_avals)
    # An operand that is not repeated has no memory for a result of the batch.
    aliases = tuple([p for p in input_output_aliases if shapes[p[0]] == batched[p[1]].shape])
    if aliases != input_output_aliases:
        fail(
            ValueError,
            "vmap of an FFI call with input_output_aliases, whose operand is not batched.",
            "the result is larger than the operand whose memory it is to take over",
            'Use vmap_method="broadcast_all".',
        )
    outs = ffi_call_p.bind(*moved, result_avals=batched, input_output_aliases=aliases, **params)
    return outs, [0] * len(outs)


def _lowering(
    ctx: LoweringContext,
    *operands: Instruction,
    target_name: str,
    has_side_effect: bool,
    input_output_aliases: tuple[tuple[int, int], ...],
    custom_call_api_version: int,
    legacy_backend_config: str | None,
    attributes: ffi_attributes.Attributes,
    **_: Any,
) -> list[Instruction]:
    if custom_call_api_version == TYPED:
        config = ffi_attributes.text(attributes)
    else:
        config = legacy_backend_config or ""
    shape = Shape.tuple([aval_to_shape(a) for a in ctx.avals_out])
    made = CustomCallAttributes(
        target_name,
        config,
        has_side_effect=has_side_effect,
        output_to_operand_aliasing=tuple([((j,), i, ()) for i, j in input_output_aliases]),
        api_version=_API_VERSIONS[custom_call_api_version],
    )
    call = ctx.builder.add(Opcode.CUSTOM_CALL, operands, made, shape=shape)
    ctx.module.by_each_device(call)
    return [ctx.builder.get_tuple_element(call, i) for i in range(len(shape.tuple_shapes))]


def _abstract_eval(*avals: Any, result_avals: tuple[Any, ...], **_: Any) -> list[Any]:
    return list(result_avals)


def _effects(*avals: Any, has_side_effect: bool, **_: Any) -> Effects:
    return frozenset([io_effect] if has_side_effect else [])


ffi_call_p = define_primitive(
    "ffi_call",
    abstract_eval=_abstract_eval,
    jvp=FullJvp(_jvp),
    transpose=Unsupported("a foreign function is not known to be linear"),
    batching=_batching,
    lowering=_lowering,
    effects=_effects,
    multiple_results=True,
)


def ffi_lowering(
    call_target_name: str,
    *,
    operand_layouts: Sequence[Any] | None = None,
    result_layouts: Sequence[Any] | None = None,
    backend_config: Mapping[str, Any] | str | None = None,
    skip_ffi_layout_processing: bool = False,
    **lowering_args: Any,
) -> Callable[..., list[Instruction]]:
    """A lowering rule for a primitive of one's own: its equations become calls of a target.

    Args:
      call_target_name: see `register_ffi_target`.
      operand_layouts, result_layouts: of the arrays, as `ffi_call` takes them.
      backend_config: attributes besides those that the rule gets at a call; or a text, for
        functions of version 1.
      lowering_args: `has_side_effect`, `input_output_aliases` (operand to result).
    Returns:
      `rule(ctx, *operands, **attributes)`.
    Raises:
      TypeError: another argument.   NotImplementedError: layouts that are not NumPy's.
      ValueError: aliases that give a result to two operands.

    >>> callable(ffi_lowering("doc.twice"))
    True
    """
    del skip_ffi_layout_processing
    unknown = sorted(lowering_args.keys() - {"has_side_effect", "input_output_aliases"})
    if unknown:
        raise TypeError(f"ffi_lowering takes no {', '.join(unknown)}")
    aliases = tuple(lowering_args.get("input_output_aliases", {}).items())
    _check_taken_once(aliases)
    text = backend_config if isinstance(backend_config, str) else None
    more = backend_config if isinstance(backend_config, Mapping) else {}

    def rule(ctx: LoweringContext, *operands: Instruction, **attributes: Any) -> list[Instruction]:
        _check_layouts("operand_layouts", operand_layouts, [o.shape.rank for o in operands])
        _check_layouts("result_layouts", result_layouts, [a.ndim for a in ctx.avals_out])
        return _lowering(
            ctx,
            *operands,
            target_name=call_target_name,
            has_side_effect=lowering_args.get("has_side_effect", False),
            input_output_aliases=aliases,
            custom_call_api_version=TYPED if text is None else 1,
            legacy_backend_config=text,
            attributes=ffi_attributes.hashable({**more, **attributes}),
        )

    return rule


build_ffi_lowering_function = ffi_lowering
