"""Finding a fault: the program that noticed one runs again, equation by equation.

Loops, branches and calls run as compiled programs that notice faults themselves; only the one
round, branch or call that has noticed something is taken apart. So a fault in the last of a
million rounds is found by a million short calls.

Operations are checked in the order in which they run, and the first fault is an error. Results
are different: what is not in a result of the program is no fault (`jnp.where(x > 0, jnp.log(x), 0)`
may take the logarithm of -1). So when all equations of a program have run, the search goes from a
bad result back to the equation that made it from operands that are not bad, and into that one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pyjax.core import call_chains, source_info
from pyjax.core.fault_checks import FaultChecks
from pyjax.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, bind_eqn
from pyjax.core.primitive import Primitive
from pyjax.core.source_info import Frame
from pyjax.core.structural import select_n_p
from pyjax.interpreters.partial_eval import trace_to_jaxpr
from pyjax.interpreters.rules import called_programs
from pyjax.lax.compare import select
from pyjax.lax.control_flow.cond_rules import cond_p
from pyjax.lax.control_flow.scan_rules import scan_p
from pyjax.lax.control_flow.tracing import split_list
from pyjax.lax.control_flow.while_loop import while_p
from pyjax.lax.faults.call_log import CallLog, Mark, bind_remembered, calls_python
from pyjax.lax.faults.flags import flagged_program, only_prints
from pyjax.lax.faults.messages import Place, fault_error, index_error
from pyjax.lax.faults.operands import dividing_primitives, index_components, promised_indices
from pyjax.lax.faults.walking import place_of
from pyjax.lax.indexing.slicing import dynamic_index_in_dim
from pyjax.lax.nary import expand_to
from pyjax.runtime.array import DeviceArray
from pyjax.runtime.dispatch import as_array, compile_for


class _Run(NamedTuple):
    """A program that has run, with all values."""

    jaxpr: Jaxpr
    values: dict[Any, Any]
    operands: dict[int, list[Any]]  # of each equation, by id
    marks: dict[int, Mark]  # where callbacks were before it

    def value(self, atom: Any) -> Any:
        return atom.val if type(atom) is Literal else self.values[atom]


class Search:
    """One search through a program; `checks`: what is a fault."""

    def __init__(self, checks: FaultChecks, log: CallLog) -> None:
        self._checks = checks
        self._log = log  # what callbacks have returned
        self._inside: list[str] = []  # iterations and branches, the outermost first
        self._live: list[np.ndarray] = []  # lanes that run, of each mapped while around
        self._programs: dict[int, Callable[[Sequence[Any]], list[Any]]] = {}
        self._kept: list[Any] = []  # whose ids are keys of `_programs`

    def run(self, closed: ClosedJaxpr, args: Sequence[Any], at: Frame | None) -> list[Any]:
        """Run a program by its equations.

        Args:
          at: the user's line for equations that were traced for somebody else's call: those of
            eager operations and of pyjax's own jitted functions.
        Raises:
          FloatingPointError, OutOfBoundsError: the first fault of an operation, or where a bad
            result comes from.
        """
        jaxpr = closed.jaxpr
        run = _Run(jaxpr, dict(zip(jaxpr.constvars, closed.consts)), {}, {})
        run.values.update(zip(jaxpr.invars, args))
        override = call_chains.override
        outer = override.frame
        try:
            for eqn in jaxpr.eqns:
                values = [run.value(a) for a in eqn.invars]
                if self._checks.of_results:
                    run.operands[id(eqn)] = values
                    run.marks[id(eqn)] = self._log.mark()
                frame = place_of(eqn, at, outer)
                override.frame = frame
                run.values.update(zip(eqn.outvars, self._equation(eqn, values, frame)))
            if self._checks.of_results:
                self._find_origin(run, at or outer, at)
        finally:
            override.frame = outer
        return [run.value(a) for a in jaxpr.outvars]

    # -- operations --------------------------------------------------------------------------------

    def _equation(self, eqn: JaxprEqn, values: list[Any], frame: Frame | None) -> list[Any]:
        if only_prints(eqn):
            return []
        if eqn.primitive in called_programs or eqn.primitive in search_rules:
            before = self._log.mark()
            *outs, hit = self._noticing(eqn, values)
            if hit:
                after = self._log.mark()
                self._log.go_to(before)
                self._enter(eqn, values, frame)
                self._log.go_to(after)
            return outs
        checks = self._checks
        if checks.divide and eqn.primitive in dividing_primitives:
            bad = self._at_fault(values[1], np.equal(_host(values[1]), 0), frame)
            if bad is not None:
                raise self._error("division by zero", eqn, values, None, frame, bad)
        if checks.oob:
            self._check_indices(eqn, values, frame)
        outs = (bind_remembered if calls_python(eqn) else bind_eqn)(eqn, values)
        if checks.nan:
            for out in outs:
                bad = self._bad(out, frame, nan=True, inf=False)
                if bad is not None:
                    raise self._error("nan", eqn, values, out, frame, bad)
        return list(outs)

    def _noticing(self, eqn: JaxprEqn, values: Sequence[Any]) -> list[Any]:
        """Results of an equation that holds programs, and whether one of its operations failed."""
        operations = self._checks._replace(nan_results=False, inf_results=False)
        key = id(eqn)
        if key not in self._programs:
            closed, _ = trace_to_jaxpr(lambda *xs: bind_eqn(eqn, xs), [a.aval for a in eqn.invars])
            self._compile(key, eqn, flagged_program(closed, operations, quiet=True))
        *outs, flag = self._programs[key](values)
        return [*outs, bool(flag)]

    def round(
        self,
        what: Callable[[], str],
        closed: ClosedJaxpr,
        values: Sequence[Any],
        live: Any = None,
    ) -> list[Any]:
        """Results of a round of a loop, after a look into it if it notices something."""
        before = self._log.mark()
        outs, hit = self._notices(closed, values)
        if hit:
            after = self._log.mark()
            self._log.go_to(before)
            self.within(what(), closed, values, live)
            self._log.go_to(after)
        return outs

    def _notices(self, closed: ClosedJaxpr, values: Sequence[Any]) -> tuple[list[Any], bool]:
        """Results of a program, and whether one of its operations or results is bad."""
        if id(closed) not in self._programs:
            self._compile(id(closed), closed, flagged_program(closed, self._checks, quiet=True))
        *outs, flag = self._programs[id(closed)](values)
        return outs, bool(flag)

    def _compile(self, key: int, holder: Any, program: ClosedJaxpr) -> None:
        compiled: dict[Any, Any] = {}

        def call(values: Sequence[Any]) -> list[Any]:
            arrays = [as_array(x) for x in values]
            specs = tuple([a.spec for a in arrays])
            if specs not in compiled:
                compiled[specs] = compile_for(program, arrays, "search for a fault")
            return compiled[specs].call(arrays)

        self._programs[key] = call
        self._kept.append(holder)

    def _enter(self, eqn: JaxprEqn, values: Sequence[Any], frame: Frame | None) -> None:
        """Look into an equation that holds programs; returns if all is well."""
        program = called_programs.get(eqn.primitive)
        if program is None:
            search_rules[eqn.primitive](self, eqn, values)
            return
        inner: ClosedJaxpr = eqn.params[program]
        self.run(inner, values, frame if inner.jaxpr.debug_info.is_library() else None)

    def within(
        self, what: str, closed: ClosedJaxpr, values: Sequence[Any], live: Any = None
    ) -> None:
        """Look into one round of a loop, or a branch, with only these lanes running."""
        frame = call_chains.override.frame
        self._inside.append(f"{what} at {source_info.summarize(frame)}" if frame else what)
        if live is not None:
            self._live.append(np.asarray(live))
        self.run(closed, values, None)
        if live is not None:
            self._live.pop()
        self._inside.pop()

    # -- values ------------------------------------------------------------------------------------

    def _bad(self, value: Any, frame: Frame | None, nan: bool, inf: bool) -> Any:
        """Where a value is NaN or infinite first, as a tuple; None if nowhere."""
        array = _host(value)
        if array is None or array.dtype.kind not in "fcV":
            return None
        mask = np.zeros(array.shape, np.bool_)
        if nan:
            mask |= np.isnan(array)
        if inf:
            mask |= np.isinf(array)
        return self._at_fault(value, mask, frame)

    def _at_fault(self, value: Any, mask: Any, frame: Frame | None) -> Any:
        mask = np.asarray(mask)
        if self._live and mask.any():
            mask = self._only_live(mask, frame)
        if not mask.any():
            return None
        return tuple(int(i) for i in np.argwhere(mask)[0])

    def _only_live(self, mask: np.ndarray, frame: Frame | None) -> np.ndarray:
        """Leave out lanes in which a loop around has stopped. Where it is not known which axis
        the lanes are, nothing is a fault here: it is one where it reaches the loop's carry."""
        place = Place(frame, mask.shape)
        for live in self._live:
            axes = [a for a in place.axes[-live.ndim :] if a is not None]
            if len(axes) < live.ndim:
                return np.zeros_like(mask)
            order = np.argsort(axes)
            shape = [1] * mask.ndim
            for axis in axes:
                shape[axis] = mask.shape[axis]
            # The outermost vmap is the first axis of the lanes, and the last in the list.
            lanes = live.transpose(tuple(reversed(range(live.ndim))))
            mask = mask & lanes.transpose(tuple(order)).reshape(shape)
        return mask

    def _check_indices(self, eqn: JaxprEqn, values: Sequence[Any], frame: Frame | None) -> None:
        found = promised_indices(eqn)
        if found is None:
            return
        for part, window in zip(index_components(found, values), found.windows):
            component = _host(part.values).astype(object)
            limit, axis = part.limit, part.axis
            mask = np.asarray((component < 0) | (component > limit), np.bool_)
            bad = self._at_fault(None, mask, frame)
            if bad is not None:
                index = int(component[bad])
                raise index_error(
                    eqn, found.shape, axis, index, window, bad, mask.shape, frame, self._inside
                )

    # -- results -----------------------------------------------------------------------------------

    def _is_bad(self, value: Any, frame: Frame | None) -> Any:
        return self._bad(value, frame, self._checks.nan_results, self._checks.inf_results)

    def _find_origin(self, run: _Run, frame: Frame | None, at: Frame | None) -> None:
        """Go back from a bad result to the equation that made it, and into that one."""
        producers = {v: e for e in run.jaxpr.eqns for v in e.outvars}
        for atom in run.jaxpr.outvars:
            if atom not in producers:
                continue
            eqn = producers[atom]
            place = place_of(eqn, at, frame)
            bad = self._is_bad(run.value(atom), place)
            if bad is None:
                continue
            while True:
                operands = run.operands[id(eqn)]
                position = self._bad_operand(eqn, operands, bad, place)
                if position is None:
                    self._made_by(eqn, operands, run.value(atom), place, run.marks[id(eqn)])
                    break
                if eqn.invars[position] not in producers:
                    self._came_with(run, eqn, position, atom, place)
                    break
                atom = eqn.invars[position]
                eqn = producers[atom]
                place = place_of(eqn, at, frame)
                bad = self._is_bad(run.value(atom), place)

    def _came_with(
        self, run: _Run, eqn: JaxprEqn, position: int, atom: Any, frame: Frame | None
    ) -> None:
        """An operand that is an argument of the program, or a constant, is bad."""
        operand = eqn.invars[position]
        inputs = run.jaxpr.invars
        if operand in inputs:
            names, number = run.jaxpr.debug_info.names(), inputs.index(operand)
            name = repr(names[number]) if len(names) == len(inputs) else str(number)
            holder = f"argument {name} of {run.jaxpr.debug_info.name()}"
            if run.jaxpr.debug_info.is_library():
                holder = f"operand {position}"
        else:
            holder = "a constant"
        value = run.value(atom)
        bad = self._is_bad(value, frame)
        if bad is not None:
            kind = "nan" if np.isnan(_host(value)[bad]) else "inf"
            operands = run.operands[id(eqn)]
            raise self._error(kind, eqn, operands, value, frame, bad, holder)

    def _bad_operand(
        self, eqn: JaxprEqn, operands: Sequence[Any], bad: Any, frame: Frame | None
    ) -> int | None:
        candidates: Sequence[int] = range(len(operands))
        if eqn.primitive is select_n_p:
            which = _host(operands[0])
            chosen = int(which[bad] if which.shape else which)
            candidates = [1 + chosen]
        for i in candidates:
            if self._is_bad(operands[i], frame) is not None:
                return i
        return None

    def _made_by(
        self, eqn: JaxprEqn, operands: Sequence[Any], value: Any, frame: Frame | None, mark: Mark
    ) -> None:
        override = call_chains.override
        outer, override.frame = override.frame, frame
        if eqn.primitive in called_programs or eqn.primitive in search_rules:
            self._log.go_to(mark)
            self._enter(eqn, operands, frame)
        override.frame = outer
        bad = self._is_bad(value, frame)
        if bad is not None:
            kind = "nan" if np.isnan(_host(value)[bad]) else "inf"
            raise self._error(kind, eqn, operands, value, frame, bad)

    def _error(
        self,
        kind: str,
        eqn: JaxprEqn,
        operands: Sequence[Any],
        result: Any,
        frame: Frame | None,
        bad: tuple[int, ...],
        came_with: str = "",
    ) -> Exception:
        hosts = [_host(x) for x in operands]
        made = None if result is None else _host(result)
        return fault_error(
            kind, eqn, hosts, made, frame, bad, self._inside, self._checks, came_with
        )


def _host(x: Any) -> Any:
    """The NumPy array of a value; None for what has none (keys of random numbers)."""
    if isinstance(x, DeviceArray):
        return x.stored_array if isinstance(x.dtype, np.dtype) else None
    return np.asarray(x)


# -- control flow ----------------------------------------------------------------------------------


def _scan_rounds(search: Search, eqn: JaxprEqn, values: Sequence[Any]) -> None:
    params, body = eqn.params, eqn.params["jaxpr"]
    length = params["length"]
    consts, carry, xs = split_list(values, params["num_consts"], params["num_carry"])
    for round_ in range(length):
        i = np.int32(length - 1 - round_ if params["reverse"] else round_)
        args = [*consts, *carry, *[dynamic_index_in_dim(x, i, 0, keepdims=False) for x in xs]]
        what = functools.partial(_round_of, body, "scan", int(i), carry)
        carry = search.round(what, body, args)[: len(carry)]


def _while_rounds(search: Search, eqn: JaxprEqn, values: Sequence[Any]) -> None:
    params = eqn.params
    cond, body = params["cond_jaxpr"], params["body_jaxpr"]
    cond_consts, body_consts, carry = split_list(
        values, params["cond_nconsts"], params["body_nconsts"]
    )
    round_, running = 0, None
    while True:
        what = functools.partial(_round_of, body, "while_loop", round_, carry)
        before = functools.partial(_condition_before, what)
        (pred,) = search.round(before, cond, [*cond_consts, *carry], running)
        running = np.asarray(pred) if running is None else np.asarray(pred) & running
        if not running.any():
            return
        lanes = running if running.ndim else None
        outs = search.round(what, body, [*body_consts, *carry], lanes)
        if running.ndim:
            axes = tuple(range(running.ndim))
            outs = [
                select(expand_to(running, new.shape, axes), new, old)
                for new, old in zip(outs, carry)
            ]
        carry = outs
        round_ += 1


def _before(what: Callable[[], str]) -> str:
    return f"condition before {what()}"


def _condition_before(round_: Callable[[], str]) -> str:
    return f"condition before {round_()}"


def _round_of(body: ClosedJaxpr, what: str, number: int, carry: Sequence[Any]) -> str:
    """`iteration 3 of scan`; that of a fori_loop with the loop's own variable."""
    if body.jaxpr.debug_info.name() == "fori_loop" and carry:
        counter = _host(carry[0])
        if counter is not None and counter.dtype.kind in "iu" and not counter.shape:
            return f"iteration {number} of fori_loop (i = {int(counter)})"
    return f"iteration {number} of {what}"


def _branch(search: Search, eqn: JaxprEqn, values: Sequence[Any]) -> None:
    index, *operands = values
    branches = eqn.params["branches"]
    chosen = min(max(int(_host(index)), 0), len(branches) - 1)
    search.within(f"branch {chosen} of cond", branches[chosen], operands)


search_rules: dict[Primitive, Callable[[Search, JaxprEqn, Sequence[Any]], None]] = {
    scan_p: _scan_rounds,
    while_p: _while_rounds,
    cond_p: _branch,
}
