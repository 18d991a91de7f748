"""Passes of Fourier transforms over lanes: each is one of Stockham's.

Radix r takes n / r transforms of length r, from one buffer to another, and puts the results where
the next pass finds them in order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm.types import const, element
from xla_backend.llvm.writer import ModuleWriter
from xla_backend.targets.cpu.routines.fft_forms import (
    CONVOLUTION,
    CONVOLVED,
    OTHERS,
    RADIX_SETS,
)
from xla_backend.targets.cpu.routines.fft_plan import LARGEST_PRIME, RADICES
from xla_backend.targets.cpu.routines.matrix_lanes import Lanes
from xla_backend.targets.cpu.routines.registry import register_group
from xla_backend.targets.cpu.routines.workspace import GIVE, HEADER, TAKE

Pair = tuple[str, str]


class Short:
    """Transforms of the lengths of `RADICES`, on pairs of lanes."""

    def __init__(self, lanes: Lanes) -> None:
        self.w, self.ty = lanes.w, lanes.ty

    def transform(self, x: list[Pair]) -> list[Pair]:
        n = len(x)
        if n == 1:
            return x
        return self._odd(x) if n % 2 else self._even(x)

    def add(self, a: Pair, b: Pair) -> Pair:
        return self.w.op("fadd", self.ty, a[0], b[0]), self.w.op("fadd", self.ty, a[1], b[1])

    def sub(self, a: Pair, b: Pair) -> Pair:
        return self.w.op("fsub", self.ty, a[0], b[0]), self.w.op("fsub", self.ty, a[1], b[1])

    def times(self, a: Pair, b: Pair) -> Pair:
        w, ty = self.w, self.ty
        real = w.fma(ty, a[0], b[0], w.fneg(ty, w.op("fmul", ty, a[1], b[1])))
        return real, w.fma(ty, a[0], b[1], w.op("fmul", ty, a[1], b[0]))

    def _even(self, x: list[Pair]) -> list[Pair]:
        """Of 2, 4 or 8."""
        n = len(x)
        even, odd = self.transform(x[::2]), self.transform(x[1::2])
        turned = [self._turned(v, k, n) for k, v in enumerate(odd)]
        sums = [self.add(a, b) for a, b in zip(even, turned)]
        return sums + [self.sub(a, b) for a, b in zip(even, turned)]

    def _turned(self, v: Pair, k: int, n: int) -> Pair:
        """Times exp(-2 pi i k / n)."""
        w, ty = self.w, self.ty
        if k == 0:
            return v
        if 4 * k == n:
            return v[1], w.fneg(ty, v[0])
        half = const(ty, math.sqrt(0.5))
        total, difference = w.op("fadd", ty, v[0], v[1]), w.op("fsub", ty, v[1], v[0])
        if 8 * k == n:
            return w.op("fmul", ty, half, total), w.op("fmul", ty, half, difference)
        assert 8 * k == 3 * n, (k, n)
        return w.op("fmul", ty, half, difference), w.fneg(ty, w.op("fmul", ty, half, total))

    def _odd(self, x: list[Pair]) -> list[Pair]:
        """Results k and n - k have the sums and differences of elements j and n - j in common."""
        w, ty, n = self.w, self.ty, len(x)
        pairs = range(1, n // 2 + 1)
        sums = [self.add(x[j], x[n - j]) for j in pairs]
        differences = [self.sub(x[j], x[n - j]) for j in pairs]
        total = x[0]
        for each in sums:
            total = self.add(total, each)
        results = [total] * n
        for k in pairs:
            even: list[str] = [*x[0]]
            odd = ["", ""]
            for j in pairs:
                angle = 2 * math.pi * (j * k % n) / n
                cosine, sine = const(ty, math.cos(angle)), const(ty, math.sin(angle))
                for part in (0, 1):
                    even[part] = w.fma(ty, cosine, sums[j - 1][part], even[part])
                    term = differences[j - 1][part]
                    old = odd[part]
                    odd[part] = w.fma(ty, sine, term, old) if old else w.op("fmul", ty, sine, term)
            # even - i odd, and even + i odd.
            turned = odd[1], w.fneg(ty, odd[0])
            results[k] = self.add((even[0], even[1]), turned)
            results[n - k] = self.sub((even[0], even[1]), turned)
        return results


def _pass_name(t: P, radix: int | str) -> str:
    return f"pyjax_fft_{t}.pass_{radix}"


# Larger primes: by squares, and by convolutions of any length or of one of a set.
_PRIME = "prime"
_RADER = {OTHERS: "rader", CONVOLVED: f"rader_{CONVOLUTION}"}


def _emit_pass(t: P, radix: int, module: ModuleWriter) -> None:
    """void pass(ptr source, ptr target, length, stride, ptr roots)"""
    parameters = [
        ("ptr noalias", "source"), ("ptr noalias", "target"), ("i64", "length"), ("i64", "stride"),
        ("ptr", "roots"),
    ]  # fmt: skip
    w = module.function(_pass_name(t, radix), parameters)
    lanes = Lanes(w, t)
    short, real = Short(lanes), element(lanes.ty)
    with w.loop("0", "%length") as outer:
        p = outer.index
        first = w.imul(p, 2 * (radix - 1))
        roots: list[Pair] = []
        for k in range(radix - 1):
            parts = [
                w.splat(lanes.ty, w.load(real, w.gep(real, "%roots", w.iadd(first, 2 * k + part))))
                for part in (0, 1)
            ]
            roots.append((parts[0], parts[1]))
        with w.loop("0", "%stride", guard=False) as inner:
            q = inner.index
            given = []
            for k in range(radix):
                at = w.iadd(w.imul(w.iadd(p, w.imul("%length", k)), "%stride"), q)
                value = lanes.load("%source", at)
                assert isinstance(value, tuple)
                given.append(value)
            results = short.transform(given)
            for k, value in enumerate(results):
                at = w.iadd(w.imul(w.iadd(w.imul(p, radix), k), "%stride"), q)
                lanes.store("%target", at, value if k == 0 else short.times(value, roots[k - 1]))
    w.ret()


def _emit_prime_pass(t: P, module: ModuleWriter) -> None:
    """void pass(ptr source, ptr target, length, stride, ptr roots, radix), for any odd radix: as
    `Short` has it, in loops."""
    parameters = [
        ("ptr noalias", "source"), ("ptr noalias", "target"), ("i64", "length"), ("i64", "stride"),
        ("ptr", "roots"), ("i64", "radix"),
    ]  # fmt: skip
    w = module.function(_pass_name(t, _PRIME), parameters)
    lanes = Lanes(w, t)
    short, real, ty = Short(lanes), element(lanes.ty), lanes.ty
    sums, differences = (lanes.scratch(LARGEST_PRIME // 2) for _ in range(2))
    others = w.isub("%radix", 1)
    half = w.op("lshr", "i64", "%radix", "1")
    own_roots = w.gep(real, "%roots", w.imul(w.imul("%length", others), 2))

    def root(table: str, number: str) -> Pair:
        parts = [
            w.splat(ty, w.load(real, w.gep(real, table, w.iadd(w.imul(number, 2), part))))
            for part in (0, 1)
        ]
        return parts[0], parts[1]

    def pair(memory: str, at: str) -> Pair:
        value = lanes.load(memory, at)
        assert isinstance(value, tuple)
        return value

    with w.loop("0", "%length") as outer, w.loop("0", "%stride", guard=False) as inner:
        p, q = outer.index, inner.index

        def given(k: str, p: str = p, q: str = q) -> Pair:
            row = w.iadd(p, w.imul("%length", k))
            return pair("%source", w.iadd(w.imul(row, "%stride"), q))

        def put(k: str, value: Pair, p: str = p, q: str = q) -> None:
            row = w.iadd(w.imul(p, "%radix"), k)
            at = w.iadd(w.imul(row, "%stride"), q)
            lanes.store("%target", at, value)

        def put_turned(k: str, value: Pair, p: str = p) -> None:
            number = w.iadd(w.imul(p, others), w.isub(k, 1))
            put(k, short.times(value, root("%roots", number)))

        first = given("0")
        with w.loop("1", w.iadd(half, 1), 1, [(ty, part) for part in first]) as loop:
            low, high = given(loop.index), given(w.isub("%radix", loop.index))
            total = short.add(low, high)
            lanes.store(sums, w.isub(loop.index, 1), total)
            lanes.store(differences, w.isub(loop.index, 1), short.sub(low, high))
            loop.next = [*short.add((loop.carried[0], loop.carried[1]), total)]
        put("0", (loop.results[0], loop.results[1]))
        with w.loop("1", w.iadd(half, 1)) as results:
            k = results.index
            zero = const(ty, 0.0)
            start = [("i64", k), *((ty, part) for part in (*first, zero, zero))]
            with w.loop("0", half, 1, start, guard=False) as terms:
                number, *carried = terms.carried
                cosine, sine = root(own_roots, number)
                both = pair(sums, terms.index), pair(differences, terms.index)
                even = [w.fma(ty, cosine, both[0][part], carried[part]) for part in (0, 1)]
                # Roots have the sine's negative.
                odd = [
                    w.fma(ty, w.fneg(ty, sine), both[1][part], carried[2 + part]) for part in (0, 1)
                ]
                following = w.iadd(number, k)
                wraps = w.cmp("sge", "i64", following, "%radix")
                following = w.select(wraps, "i64", w.isub(following, "%radix"), following)
                terms.next = [following, *even, *odd]
            _, even_real, even_imag, odd_real, odd_imag = terms.results
            even_sum, turned = (even_real, even_imag), (odd_imag, w.fneg(ty, odd_real))
            put_turned(k, short.add(even_sum, turned))
            put_turned(w.isub("%radix", k), short.sub(even_sum, turned))
    w.ret()


class Tables(NamedTuple):
    """Addresses of what `fft_plan` makes, and how many passes there are."""

    passes: str
    total: str
    roots: str
    places: str


def run_passes(lanes: Lanes, buffers: Pair, tables: Tables, radices: str) -> str:
    """All passes, from buffer to buffer; where the result is.

    Args:
      radices: the name of which there are (`fft_forms`).
    """
    w = lanes.w
    carries = [("ptr", buffer) for buffer in buffers]
    with w.loop("0", tables.total, 1, carries) as loop:
        entry = w.imul(loop.index, 4)
        radix, length, stride, start = (
            w.load("i64", w.gep("i64", tables.passes, w.iadd(entry, field))) for field in range(4)
        )
        roots = w.gep(element(lanes.ty), tables.roots, w.imul(start, 2))
        arguments = [
            *(("ptr", buffer) for buffer in loop.carried), ("i64", length), ("i64", stride),
            ("ptr", roots),
        ]  # fmt: skip
        ints = RADIX_SETS[CONVOLUTION] if radices == CONVOLVED else RADIX_SETS.get(radices, RADICES)
        for each in ints:
            with w.if_(w.cmp("eq", "i64", radix, str(each))):
                w.call(_pass_name(lanes.t, each), "void", arguments)
        if radices in _RADER:
            with w.if_(w.cmp("sgt", "i64", radix, str(RADICES[-1]))):
                _run_prime(lanes, tables, [*arguments, ("i64", radix)], radices)
        loop.next = [loop.carried[1], loop.carried[0]]
    return loop.results[0]


def _run_prime(
    lanes: Lanes, tables: Tables, arguments: list[tuple[str, str]], radices: str
) -> None:
    """The pass of a larger prime, which is the last argument."""
    w = lanes.w
    plan = w.gep("i64", tables.passes, w.imul(tables.total, 4))
    far = [("ptr", plan), ("ptr", tables.places)]

    def squared() -> list[str]:
        w.call(_pass_name(lanes.t, _PRIME), "void", arguments)
        return []

    def convolved() -> list[str]:
        w.call(_pass_name(lanes.t, _RADER[radices]), "void", [*arguments, *far])
        return []

    if radices == CONVOLVED:
        convolved()
        return
    w.if_else(w.cmp("sle", "i64", arguments[-1][1], str(LARGEST_PRIME)), [], squared, convolved)


def _emit_rader_pass(t: P, radices: str, module: ModuleWriter) -> None:
    """void pass(ptr source, ptr target, length, stride, ptr roots, radix, ptr plan, ptr places),
    for larger primes: by powers of a generator, elements and results other than the first ones are
    a cyclic convolution with the roots, which two transforms of its length make a product; that
    length has radices of a set."""
    parameters = [
        ("ptr noalias", "source"), ("ptr noalias", "target"), ("i64", "length"), ("i64", "stride"),
        ("ptr", "roots"), ("i64", "radix"), ("ptr", "plan"), ("ptr", "places"),
    ]  # fmt: skip
    name = _RADER[CONVOLVED if radices == CONVOLUTION else OTHERS]
    w = module.function(_pass_name(t, name), parameters, attributes="noinline")
    lanes = Lanes(w, t)
    short, real, ty = Short(lanes), element(lanes.ty), lanes.ty
    others = w.isub("%radix", 1)
    size, count = (w.load("i64", w.gep("i64", "%plan", field)) for field in range(2))
    spectrum = w.gep(real, "%roots", w.imul(w.imul("%length", others), 2))
    inner_roots = w.gep(real, spectrum, w.imul(size, 2))
    tables = Tables(w.gep("i64", "%plan", 2), count, inner_roots, "null")
    nbytes = w.imul(size, 2 * lanes.count * (8 if real == "double" else 4))
    taken = w.call(TAKE, "ptr", [("i64", w.imul(nbytes, 2))])
    buffers = w.gep("i8", taken, HEADER), w.gep("i8", taken, w.iadd(nbytes, HEADER))

    def pair(memory: str, at: str) -> Pair:
        value = lanes.load(memory, at)
        assert isinstance(value, tuple)
        return value

    def root(table: str, number: str) -> Pair:
        first = w.imul(number, 2)
        parts = [w.splat(ty, w.load(real, w.gep(real, table, w.iadd(first, p)))) for p in (0, 1)]
        return parts[0], parts[1]

    def generated(number: str) -> str:
        return w.as_index("i32", w.load("i32", w.gep("i32", "%places", number)))

    with w.loop("0", "%length") as outer, w.loop("0", "%stride", guard=False) as inner:
        p, q = outer.index, inner.index

        def given(k: str, p: str = p, q: str = q) -> Pair:
            return pair("%source", w.iadd(w.imul(w.iadd(p, w.imul("%length", k)), "%stride"), q))

        def put(k: str, value: Pair, p: str = p, q: str = q) -> None:
            row = w.iadd(w.imul(p, "%radix"), k)
            lanes.store("%target", w.iadd(w.imul(row, "%stride"), q), value)

        first = given("0")
        with w.loop("0", others) as loop:
            lanes.store(buffers[0], loop.index, given(generated(loop.index)))
        with w.loop(others, size) as loop:
            lanes.store(buffers[0], loop.index, lanes.zero())
        found = run_passes(lanes, buffers, tables, radices)
        put("0", short.add(first, pair(found, "0")))
        # The inverse transform is that of numbers whose parts have traded places.
        with w.loop("0", size) as loop:
            x, y = short.times(pair(found, loop.index), root(spectrum, loop.index))
            lanes.store(found, loop.index, (y, x))
        other = w.select(w.cmp("eq", "ptr", found, buffers[0]), "ptr", buffers[1], buffers[0])
        found = run_passes(lanes, (found, other), tables, radices)
        with w.loop("0", others) as loop:
            y, x = pair(found, loop.index)
            value = short.add(first, (x, y))
            # The inverse of the generator's power.
            back = w.isub(others, loop.index)
            back = w.select(w.cmp("eq", "i64", loop.index, "0"), "i64", "0", back)
            k = generated(back)
            number = w.iadd(w.imul(p, others), w.isub(k, 1))
            put(k, short.times(value, root("%roots", number)))
    w.call(GIVE, "void", [("ptr", taken)])
    w.ret()


def register_passes(t: P) -> None:
    """Each is a group of its own: few lengths have many."""
    emitters: dict[int | str, Callable[[ModuleWriter], None]] = {
        **{radix: partial(_emit_pass, t, radix) for radix in RADICES},
        _PRIME: partial(_emit_prime_pass, t),
        _RADER[OTHERS]: partial(_emit_rader_pass, t, OTHERS),
        _RADER[CONVOLVED]: partial(_emit_rader_pass, t, CONVOLUTION),
    }
    for radix, emit in emitters.items():
        register_group(f"fft_pass_{radix}_{t}", (_pass_name(t, radix),), emit)
