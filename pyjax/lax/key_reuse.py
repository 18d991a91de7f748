"""Random keys that are used twice, for the option debug_key_reuse.

Bits that are drawn from a key, or keys that are split off it, use it up; `fold_in`, `clone` and
looking at its words do not. Each key of an array is a `Slot`, and what moves keys (indexing,
reshaping, stacking) moves slots: a slice of an array of keys is the same keys, so that drawing from
`keys[0]` twice is noticed, and drawing from `keys[0]` and `keys[1]` is not.

A program that has to do with keys is walked through at each call, before it runs, with the slots of
its arguments: through calls, both branches of a `cond` (they may use the same key), and as many
rounds of a loop as it takes for each key of the carry to come to each place in it. Indices are
followed where they are few and known; what an unknown index picks is taken for a new key.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pyjax._config import options
from pyjax.core import call_chains
from pyjax.core.call_chains import current_frame
from pyjax.core.errors import KeyReuseError, new_error
from pyjax.core.extended_dtypes import is_extended
from pyjax.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, bind_eqn, subjaxprs
from pyjax.core.primitive import Primitive
from pyjax.core.source_info import Frame, summarize
from pyjax.core.source_names import expression
from pyjax.core.weak_tables import WeakIdentityTable
from pyjax.interpreters.hlo import data_movement_primitives
from pyjax.interpreters.rules import called_programs
from pyjax.lax.control_flow.cond_rules import cond_p
from pyjax.lax.control_flow.scan_rules import scan_p
from pyjax.lax.control_flow.tracing import split_list
from pyjax.lax.control_flow.while_loop import while_p
from pyjax.lax.faults.walking import place_of, without_checks
from pyjax.lax.random_keys import random_bits_p, random_split_p
from pyjax.runtime.array import DeviceArray
from pyjax.runtime.dispatch import Call, Guarded, add_guard

_MOST_KEYS = 1 << 16  # larger arrays of keys are not followed
_FEW = 16  # elements of an index that is followed
_MOST_ROUNDS = 16


class _Use(NamedTuple):
    """What used a key, where, and in a call of which line."""

    primitive: Primitive
    frame: Frame | None
    called: Frame | None

    def place(self) -> str:
        where = summarize(self.frame)
        if self.called is not None:
            where += f"\ncalled at {summarize(self.called)}"
        return where


class Slot:
    """One key. Attribute `use`: what used it up, or None."""

    __slots__ = ("use",)

    def __init__(self, use: _Use | None = None) -> None:
        self.use = use


# An array of slots for keys, or a small known array of integers, or None: nothing is known.
_Value = Any
# The slots of arrays of keys that programs made.
_slots = WeakIdentityTable()
_using = frozenset({random_bits_p, random_split_p})


def _new_slots(shape: Sequence[int]) -> _Value:
    if math.prod(shape) > _MOST_KEYS:
        return None
    slots = np.empty(shape, object)
    for place in np.ndindex(*shape):
        slots[place] = Slot()
    return slots


def _single(slot: Slot) -> _Value:
    array = np.empty((), object)
    array[()] = slot
    return array


def _is_keys(aval: Any) -> bool:
    return is_extended(getattr(aval, "dtype", None))


def _is_few(x: Any) -> bool:
    return x.dtype.kind in "iub" and x.size <= _FEW


class _Walk:
    """One walk through a program; `called`: the user's line, if the program is the user's."""

    def __init__(self, called: Frame | None) -> None:
        self._called = called
        self._used: list[Slot] = []  # those that this walk has used, in order
        self._inside: list[str] = []  # loops, the outermost first

    def undo(self, start: int = 0) -> list[tuple[Slot, _Use | None]]:
        """Take back uses; what they were."""
        gone = [(slot, slot.use) for slot in self._used[start:]]
        for slot, _ in gone:
            slot.use = None
        del self._used[start:]
        return gone

    def run(self, closed: ClosedJaxpr, args: Sequence[_Value], at: Frame | None) -> list[_Value]:
        """What a program's results are made of. `at`: as in `Search.run`."""
        jaxpr = closed.jaxpr
        consts = [_value_of(x) for x in closed.consts]
        env: dict[Any, _Value] = {
            **dict(zip(jaxpr.constvars, consts)),
            **dict(zip(jaxpr.invars, args)),
        }
        override = call_chains.override
        outer = override.frame
        try:
            for eqn in jaxpr.eqns:
                values = [_value_of(a.val) if type(a) is Literal else env[a] for a in eqn.invars]
                frame = place_of(eqn, at, outer)
                override.frame = frame
                env.update(zip(eqn.outvars, self._equation(eqn, values, frame)))
        finally:
            override.frame = outer
        return [_value_of(a.val) if type(a) is Literal else env[a] for a in jaxpr.outvars]

    def _equation(
        self, eqn: JaxprEqn, values: list[_Value], frame: Frame | None
    ) -> Sequence[_Value]:
        program = called_programs.get(eqn.primitive)
        if program is not None and not eqn.params.get("differentiated"):
            inner: ClosedJaxpr = eqn.params[program]
            return self.run(inner, values, frame if inner.jaxpr.debug_info.is_library() else None)
        # (The recomputation of a checkpointed function draws the same bits again, as it should.)
        rule = _rules.get(eqn.primitive)
        if rule is not None:
            return rule(self, eqn, values)
        if eqn.primitive in _using:
            self.use(values[0], _Use(eqn.primitive, frame, self._called))
        known = _computed(eqn, values)
        if known is not None:
            return known
        return [_new_slots(v.aval.shape) if _is_keys(v.aval) else None for v in eqn.outvars]

    def use(self, keys: _Value, use: _Use) -> None:
        """Use up keys.

        Raises:
          KeyReuseError: one of them was used before.
        """
        if keys is None:
            return
        for place in np.ndindex(*keys.shape):
            slot = keys[place]
            if slot.use is not None and (slot.use is not use):
                raise self._error(slot.use, use, place)
            if slot.use is None:
                slot.use = use
                self._used.append(slot)

    def _error(self, before: _Use, now: _Use, place: tuple[int, ...]) -> KeyReuseError:
        which = f", element {list(place)} of an array," if place else ""
        where = summarize(now.frame)
        if now.frame is not None and expression(now.frame):
            where += f"\nin `{expression(now.frame)}`"
        for loop in reversed(self._inside):
            where += f"\nin {loop}"
        if now.called is not None:
            where += f"\ncalled at {summarize(now.called)}"
        return new_error(
            KeyReuseError,
            f"a random key{which} is used twice: {now.primitive} uses one that {before.primitive} "
            "has used up",
            f"the same key gives the same numbers again; it was used at {before.place()}",
            "split it before, key, subkey = random.split(key), and use each part once; where the "
            "same numbers are wanted, say so by random.clone(key)",
            where=where,
        )

    # -- control flow ------------------------------------------------------------------------------

    def scan(self, eqn: JaxprEqn, values: Sequence[_Value]) -> list[_Value]:
        params, body, length = eqn.params, eqn.params["jaxpr"], eqn.params["length"]
        num_carry = params["num_carry"]
        consts, carry, xs = split_list(values, params["num_consts"], num_carry)
        order = [*range(length)][::-1] if params["reverse"] else [*range(length)]
        rows: dict[int, list[_Value]] = {}
        before = len(self._used)
        first_used: set[Slot] = set()
        for i in order[: _rounds(carry)]:
            slices = [None if x is None else x[i, ...] for x in xs]
            outs = self._round(f"iteration {i} of scan", body, [*consts, *carry, *slices])
            carry, rows[i] = outs[:num_carry], outs[num_carry:]
            first_used = first_used or {*self._used[before:]}
        avals = [v.aval for v in eqn.outvars[num_carry:]]
        if not order:
            return [*carry, *[_new_slots(a.shape) if _is_keys(a) else None for a in avals]]
        first = order[0]
        pairs: dict[int, dict[Slot, Slot]] = {}  # of other rows, by those of the first
        for i in order[len(rows) :]:
            pairs[i] = {}
            for x in xs:
                if x is not None and x.dtype == object:
                    pairs[i].update(zip(np.ravel(x[first]), np.ravel(x[i])))
            for old, new in pairs[i].items():
                if old in first_used and old.use is not None:
                    self.use(_single(new), old.use._replace())
        ys: list[_Value] = []
        for k, aval in enumerate(avals):
            like = rows[first][k]
            if not _is_keys(aval) or like is None or aval.size > _MOST_KEYS:
                ys.append(None)
                continue
            stacked = np.empty(aval.shape, object)
            for i in order:
                if i in rows:
                    stacked[i, ...] = rows[i][k]
                    continue
                for place in np.ndindex(*like.shape):
                    old = like[place]
                    stacked[(i, *place)] = pairs[i].get(old) or Slot(old.use)
            ys.append(stacked)
        return [*carry, *ys]

    def while_loop(self, eqn: JaxprEqn, values: Sequence[_Value]) -> list[_Value]:
        params = eqn.params
        cond_consts, body_consts, carry = split_list(
            values, params["cond_nconsts"], params["body_nconsts"]
        )
        for i in range(_rounds(carry)):
            what = f"iteration {i} of while_loop"
            cond = [*cond_consts, *carry]
            (goes_on,) = self._round(f"the condition before {what}", params["cond_jaxpr"], cond)
            if goes_on is not None and not goes_on.any():
                break
            carry = self._round(what, params["body_jaxpr"], [*body_consts, *carry])
        return carry

    def _round(self, what: str, closed: ClosedJaxpr, values: Sequence[_Value]) -> list[_Value]:
        self._inside.append(f"{what} at {summarize(call_chains.override.frame)}")
        outs = self.run(closed, values, None)
        self._inside.pop()
        return outs

    def cond(self, eqn: JaxprEqn, values: Sequence[_Value]) -> list[_Value]:
        index, *operands = values
        branches = eqn.params["branches"]
        if index is not None:
            return self.run(branches[min(max(int(index), 0), len(branches) - 1)], operands, None)
        start = len(self._used)
        uses: dict[Slot, _Use | None] = {}
        results = []
        for branch in branches:
            results.append(self.run(branch, operands, None))
            uses.update(self.undo(start))
        for slot, use in uses.items():
            slot.use = use
            self._used.append(slot)
        return [_either(column) for column in zip(*results)]


def _either(alternatives: Sequence[_Value]) -> _Value:
    """The keys of one of several arrays, it is not known which; used if one of them is."""
    first, *others = alternatives
    if first is None or first.dtype != object or any(x is None for x in others):
        return None
    merged = np.empty(first.shape, object)
    for place in np.ndindex(*first.shape):
        slots = [x[place] for x in alternatives]
        same = all(s is slots[0] for s in slots)
        use = next((s.use for s in slots if s.use is not None), None)
        merged[place] = slots[0] if same else Slot(use)
    return merged


def _rounds(carry: Sequence[_Value]) -> int:
    """So many rounds of a loop that a key has come from each place of the carry to each other."""
    keys = sum(x.size for x in carry if x is not None and x.dtype == object)
    return min(2 + keys, _MOST_ROUNDS)


_rules: dict[Primitive, Callable[[_Walk, JaxprEqn, Sequence[_Value]], list[_Value]]] = {
    scan_p: _Walk.scan,
    while_p: _Walk.while_loop,
    cond_p: _Walk.cond,
}


def _computed(eqn: JaxprEqn, values: Sequence[_Value]) -> list[_Value] | None:
    """Results of an equation whose operands are known: small integers, or keys that it moves."""
    if any(x is None for x in values) or eqn.effects:
        return None
    moved = [x for x in values if x.dtype == object]
    if not moved:
        few = all(isinstance(v.aval.dtype, np.dtype) and _is_few(v.aval) for v in eqn.outvars)
        return [np.asarray(x) for x in bind_eqn(eqn, values)] if few else None
    if eqn.primitive not in data_movement_primitives:
        return None
    # Let the primitive move the numbers of the keys.
    slots = np.concatenate([np.ravel(x) for x in moved])
    start, operands = 0, []
    for x in values:
        if x.dtype == object:
            operands.append(np.arange(start, start + x.size, dtype=np.int32).reshape(x.shape))
            start += x.size
        else:
            operands.append(x)
    results = []
    for out in bind_eqn(eqn, operands):
        numbers = np.asarray(out)
        keys = _new_slots(numbers.shape)
        inside = (numbers >= 0) & (numbers < len(slots))
        keys[inside] = slots[numbers[inside]]
        results.append(keys)
    return results


def _value_of(x: Any) -> _Value:
    """What is known of an argument or constant."""
    if isinstance(x, DeviceArray):
        if _is_keys(x.aval):
            slots = _slots.get(x)
            if slots is None:
                slots = _new_slots(x.shape)
                _slots.set(x, slots)
            return slots
        return np.asarray(x.host_view()) if _is_few(x) else None
    value = np.asarray(x)
    return value if value.dtype.kind in "iub" and value.size <= _FEW else None


def _has_keys(jaxpr: Jaxpr) -> bool:
    variables = [*jaxpr.constvars, *jaxpr.invars, *[v for e in jaxpr.eqns for v in e.outvars]]
    return any(_is_keys(v.aval) for v in variables) or any(map(_has_keys, subjaxprs(jaxpr)))


def _guard(closed: ClosedJaxpr, donated: Sequence[bool]) -> Guarded | None:
    """Watch the keys that go into a program and come out of it."""
    if not options.debug_key_reuse.value or not _has_keys(closed.jaxpr):
        return None
    of_library = closed.jaxpr.debug_info.is_library()

    def watching(call: Call) -> Call:
        def watched(arguments: Sequence[DeviceArray]) -> list[DeviceArray]:
            here = current_frame()
            walk = _Walk(None if of_library else here)
            values = [_value_of(x) for x in arguments]
            try:
                outs = without_checks(walk.run, closed, values, here if of_library else None)
                results = call(arguments)
            except BaseException:
                walk.undo()
                raise
            for result, slots in zip(results, outs):
                if slots is not None and _is_keys(result.aval):
                    _slots.set(result, slots)
            return results

        return watched

    return Guarded(closed, donated, watching)


add_guard(_guard)
