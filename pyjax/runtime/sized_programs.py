"""Programs with arrays whose sizes are traced integers (option `dynamic_shapes`): compiled once,
for all sizes.

The program is cut into parts that run one after another. Equations on arrays of known shapes are
ordinary programs; the others are compiled with stand-ins for the sizes, into code that takes the
sizes when it runs. Before such a part, its sizes are read, and memory for its results is taken. A
traced integer may come from the arguments or be computed by an earlier part. Below dispatch: which
parts there are is decided here, compiling ordinary ones is handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from pyjax.core import structural
from pyjax.core.avals import ShapedArray
from pyjax.core.compile_log import LOWERING, compiling, timed
from pyjax.core.errors import fail
from pyjax.core.jaxpr import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    bind_eqn,
    eval_jaxpr,
    jaxprs_in_params,
)
from pyjax.core.source_info import summarize
from pyjax.core.structural import (
    broadcast_in_dim_p,
    dimension_p,
    dimension_size_p,
    mul_p,
    reduce_sum,
    transpose,
)
from pyjax.core.traced_sizes import FIX, Dimension, is_known
from pyjax.interpreters import hlo
from pyjax.interpreters.rules import elementwise_primitives, sized_primitives
from pyjax.interpreters.staging import trace_to_jaxpr, unsupported_size
from pyjax.runtime.array import DeviceArray
from pyjax.runtime.array_spec import ArraySpec, array_spec
from pyjax.runtime.program import Call, Program, bringing
from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.process.bounded_cache import BoundedCache, Budget
from xla_backend.runtime.client import Device

# Sizes that no array has: each stands for a traced one while a part is lowered. Primes, so that no
# product of them and of known sizes is another such product.
_STAND_INS = (
    2147483647, 2147483629, 2147483587, 2147483579, 2147483563, 2147483549, 2147483543, 2147483497,
)  # fmt: skip
_PARTS = Budget("programs at sizes", entries=4096)

CompilePart = Callable[[ClosedJaxpr, str], Program]
_Env = dict[Var, DeviceArray]


def has_traced_sizes(jaxpr: Jaxpr) -> bool:
    """Whether there are arrays of traced sizes in the program, or in one that it calls."""
    return any(
        eqn.primitive in (dimension_p, dimension_size_p)
        or any(map(has_traced_sizes, jaxprs_in_params(eqn.params)))
        for eqn in jaxpr.eqns
    )


class SizedProgram:
    """A program with traced sizes; `call` runs it, as that of a `Program` does.

    Attributes:
      parts: what runs, in order: reads arrays of the environment and adds its results to it.
    """

    held_bytes = 1 << 18

    def __init__(
        self,
        parts: Sequence[Callable[[_Env], None]],
        jaxpr: Jaxpr,
        constants: _Env,
        results: Sequence[Var],
        device: Device,
    ) -> None:
        self.parts = tuple(parts)
        self._invars = jaxpr.invars
        self._constants = constants
        self._results = results
        self._device = device
        self.call: Call = self._run

    def _run(self, arguments: Sequence[DeviceArray]) -> list[DeviceArray]:
        env = dict(self._constants)
        env.update(zip(self._invars, arguments))
        for part in self.parts:
            part(env)
        return [env[v] for v in self._results]

    def wrap(self, wrapper: Callable[[Call], Call]) -> None:
        """Calls go through what `wrapper` makes of the way it was called so far."""
        self.call = wrapper(self.call)

    def bring_from(self, given: Sequence[ArraySpec]) -> None:
        """Arguments are of these kinds (see `Program.bring_from`)."""
        self.wrap(lambda call: bringing(call, given, self._device))


def compile_sized_program(
    closed: ClosedJaxpr,
    name: str,
    device: Device,
    committed: bool,
    options_now: CompileOptions,
    compile_part: CompilePart,
    as_constant: Callable[[Any], DeviceArray],
) -> SizedProgram:
    """Cut a program with traced sizes into parts, and compile them.

    Raises:
      NotImplementedError: an operation that has no form with traced sizes, or has effects.
    """
    plan = _Plan(closed)
    parts: list[Callable[[_Env], None]] = []
    for has_sizes, jaxpr, results in plan.parts():
        if has_sizes:
            part = _SizedPart(jaxpr, plan.sizes, name, device, committed, options_now)
            parts.append(part.run)
        else:
            parts.append(_ordinary_part(jaxpr, results, compile_part(ClosedJaxpr(jaxpr), name)))
    constants = dict(zip(closed.jaxpr.constvars, map(as_constant, closed.consts)))
    return SizedProgram(parts, closed.jaxpr, constants, plan.results, device)


def _ordinary_part(
    jaxpr: Jaxpr, results: Sequence[Var], program: Program
) -> Callable[[_Env], None]:
    def run(env: _Env) -> None:
        env.update(zip(results, program.call([env[v] for v in jaxpr.invars])))

    return run


class _Plan:
    """Which equation runs in which part: even ones are ordinary, odd ones have traced sizes.

    Attributes:
      sizes: the scalar that each dimension refers to.   results: the variables that are returned.
    """

    def __init__(self, closed: ClosedJaxpr) -> None:
        self.jaxpr = closed.jaxpr
        self.sizes: dict[Dimension, Var] = {}
        self._same: dict[Var, Var] = {}  # values of dimensions are the scalars they refer to
        self._part: dict[Var, int] = {}  # that makes a variable; inputs are there before all parts
        self._eqns: dict[int, list[JaxprEqn]] = {}
        for eqn in self.jaxpr.eqns:
            if eqn.primitive is dimension_p:
                self.sizes[eqn.params["dimension"]] = self._resolved(eqn.invars[0])
            elif eqn.primitive is dimension_size_p:
                self._same[eqn.outvars[0]] = self.sizes[eqn.params["dimension"]]
            else:
                self._place(eqn)
        # What no part makes is handed on by one that does nothing else.
        self._copies: dict[Var, Any] = {}
        self.results = [self._result(atom) for atom in self.jaxpr.outvars]

    def _resolved(self, atom: Any) -> Any:
        return self._same.get(atom, atom) if type(atom) is not Literal else atom

    def _place(self, eqn: JaxprEqn) -> None:
        _check(eqn)
        atoms = [self._resolved(a) for a in eqn.invars]
        last = max([self._part.get(a, -1) for a in atoms if type(a) is not Literal], default=-1)
        traced = [d for v in (*atoms, *eqn.outvars) for d in _shape(v.aval) if type(d) is Dimension]
        if traced:
            # The sizes must be known before the part begins.
            known = max(self._part.get(self.sizes[d], -1) for d in traced)
            number = max(last, known + 1)
            number += 1 - number % 2
        else:
            number = max(last, 0)
            if number % 2 and not (_is_scalar(eqn) and eqn.primitive in elementwise_primitives):
                number += 1
        self._eqns.setdefault(number, []).append(eqn.replace(invars=atoms))
        for v in eqn.outvars:
            self._part[v] = number

    def _result(self, atom: Any) -> Var:
        atom = self._resolved(atom)
        if type(atom) is not Literal and atom in self._part:
            return atom
        copy = Var(atom.aval)
        self._copies[copy] = atom
        return copy

    def parts(self) -> Iterator[tuple[bool, Jaxpr, Sequence[Var]]]:
        """Of each part, whether it has traced sizes, its program, and what its results are."""
        needed = {v for v in self.results if v not in self._copies} | set(self.sizes.values())
        found = []
        for number in sorted(self._eqns, reverse=True):
            eqns = self._eqns[number]
            made = [v for eqn in eqns for v in eqn.outvars if v in needed]
            own = {v for eqn in eqns for v in eqn.outvars}
            read = [a for eqn in eqns for a in eqn.invars if type(a) is not Literal]
            inputs = list(dict.fromkeys(a for a in read if a not in own))
            needed.update(inputs)
            if made:
                debug = self.jaxpr.debug_info
                jaxpr = Jaxpr([], inputs, made, eqns, debug_info=debug)
                found.append((number % 2 == 1, jaxpr, made))
        if self._copies:
            atoms = list(self._copies.values())
            inputs = [a for a in dict.fromkeys(atoms) if type(a) is not Literal]
            yield False, Jaxpr([], inputs, atoms, []), list(self._copies)
        yield from reversed(found)


def _shape(aval: Any) -> Sequence[Any]:
    return aval.shape if isinstance(aval, ShapedArray) else ()


def _is_scalar(eqn: JaxprEqn) -> bool:
    return not any(_shape(v.aval) for v in (*eqn.invars, *eqn.outvars))


def _check(eqn: JaxprEqn) -> None:
    """Raise for what has no form with traced sizes."""
    where, name = summarize(eqn.source), eqn.primitive.name
    for inner in jaxprs_in_params(eqn.params):
        for v in (v for e in inner.eqns for v in (*e.invars, *e.outvars)):
            if not is_known(_shape(v.aval)):
                raise unsupported_size(f"{name} with an operation inside of it on", v.aval, where)
        if has_traced_sizes(inner):
            fail(
                NotImplementedError,
                f"{name} with a size that is traced inside of it is not supported.",
                "Its body is a program of its own, which sizes (option dynamic_shapes) do not "
                "enter.",
                "Use the traced integer itself, instead of the size of an array, or compute with "
                "the size before.",
            )
    for v in (*eqn.invars, *eqn.outvars):
        supported = eqn.primitive in elementwise_primitives or eqn.primitive in sized_primitives
        if not supported and not is_known(_shape(v.aval)):
            raise unsupported_size(f"{name} of", v.aval, where)
    if eqn.effects:
        fail(
            NotImplementedError,
            f"{eqn.primitive.name} has side effects, in a program with arrays of traced sizes.",
            "Such a program (option dynamic_shapes) runs in parts, in an order of its own.",
            "Call the part with effects outside of the jitted function.",
        )


class _SizedPart:
    """One part with traced sizes: code for all of them, and what is made of it for some."""

    def __init__(
        self,
        jaxpr: Jaxpr,
        sizes: dict[Dimension, Var],
        name: str,
        device: Device,
        committed: bool,
        options_now: CompileOptions,
    ) -> None:
        self._jaxpr = jaxpr
        avals = [v.aval for e in jaxpr.eqns for v in (*e.invars, *e.outvars)]
        traced = [d for aval in avals for d in _shape(aval) if type(d) is Dimension]
        self._dimensions = list(dict.fromkeys(traced))
        self._sizes = [sizes[d] for d in self._dimensions]
        self._device, self._committed = device, committed
        if len(self._dimensions) > len(_STAND_INS):
            fail(
                NotImplementedError,
                f"{jaxpr.debug_info.function} has arrays of {len(self._dimensions)} different "
                "traced sizes.",
                f"At most {len(_STAND_INS)} can be told apart.",
                FIX,
            )
        stand_ins = dict(zip(self._dimensions, _STAND_INS))
        with timed(LOWERING, f"jit({name})"):
            module = hlo.lower_jaxpr_to_module(self._at(stand_ins), name)
        try:
            with compiling(module.name, device):
                self._make = device.client.compile_sized(
                    module, list(stand_ins.values()), options_now
                )
        except UnimplementedError as error:
            fail(
                NotImplementedError,
                f"{jaxpr.debug_info.function} has arrays of traced sizes (option dynamic_shapes), "
                "and cannot be compiled.",
                str(error),
                FIX,
            )
        self._programs: BoundedCache[tuple[int, ...], Program] = BoundedCache(_PARTS)

    def _at(self, sizes: dict[Dimension, int]) -> ClosedJaxpr:
        """The part with numbers for dimensions; it takes these, too, before its inputs."""

        def with_numbers(x: Any) -> Any:
            if type(x) is Dimension:
                return sizes[x]
            return tuple(map(with_numbers, x)) if type(x) is tuple else x

        def bind(eqn: JaxprEqn, values: Sequence[Any]) -> Sequence[Any]:
            params = {key: with_numbers(value) for key, value in eqn.params.items()}
            if eqn.primitive.name == "dot_general":
                shapes = [with_numbers(a.aval.shape) for a in eqn.invars]
                return [_product(values, shapes, eqn.outvars[0].aval.dtype, params)]
            return bind_eqn(eqn.replace(params=params), values)

        def run(*values: Any) -> list[Any]:
            return eval_jaxpr(self._jaxpr, (), *values[len(sizes) :], apply=bind)

        avals = [v.aval for v in self._sizes]
        avals += [v.aval.update(shape=with_numbers(v.aval.shape)) for v in self._jaxpr.invars]
        closed, _ = trace_to_jaxpr(run, avals)
        return closed

    def run(self, env: _Env) -> None:
        scalars = [env[v] for v in self._sizes]
        values = tuple([int(s.item()) for s in scalars])
        program = self._programs.hot.get(values)
        if program is None:
            program = self._programs.make(values, lambda: self._program(values))
        arrays = [env[v] for v in self._jaxpr.invars]
        env.update(zip(self._jaxpr.outvars, program.call([*scalars, *arrays])))

    def _program(self, values: tuple[int, ...]) -> Program:
        sizes = dict(zip(self._dimensions, values))
        for dimension, value in sizes.items():
            if value < 0:
                fail(
                    ValueError,
                    f"The size {dimension} of an array in {self._jaxpr.debug_info.function} is "
                    f"{value}.",
                    "Sizes must not be negative; this one was known only when the program ran.",
                    f"Use jnp.maximum({dimension}, 0) as the size, or call with another value.",
                )
        specs = [
            array_spec(
                v.aval.update(shape=tuple([sizes.get(d, d) for d in v.aval.shape])),
                self._device,
                self._committed,
            )
            for v in self._jaxpr.outvars
        ]
        return Program(self._make(values), self._device, (), specs, self._jaxpr.debug_info)


def _product(
    values: Sequence[Any], shapes: Sequence[Sequence[int]], dtype: Any, params: dict[str, Any]
) -> Any:
    """A dot_general as a sum of products, which fuse with it."""
    contracted, batch = params["dimension_numbers"]
    free = [
        [d for d in range(len(shape)) if d not in contracted[k] and d not in batch[k]]
        for k, shape in enumerate(shapes)
    ]
    sizes = [[shapes[0][d] for d in batch[0]]]
    sizes += [[shapes[k][d] for d in free[k]] for k in range(2)]
    sizes += [[shapes[0][d] for d in contracted[0]]]
    full = tuple(n for group in sizes for n in group)
    starts = [sum(map(len, sizes[:i])) for i in range(5)]
    # Sums of narrow floats are formed in float32; their factors are, too.
    narrow = dtype.kind not in "iu" and dtype.itemsize < 4
    inner = np.dtype(np.float32) if narrow else dtype
    factors = []
    for k, x in enumerate(values):
        x = structural.convert_element_type(x, inner)
        x = transpose(x, (*batch[k], *free[k], *contracted[k]))
        places = [i for group in (0, 1 + k, 3) for i in range(starts[group], starts[group + 1])]
        factors.append(
            broadcast_in_dim_p.bind1(
                x, shape=full, broadcast_dimensions=tuple(places), sharding=None
            )
        )
    total = reduce_sum(mul_p.bind1(*factors), range(starts[3], starts[4]))
    return structural.convert_element_type(total, dtype)
