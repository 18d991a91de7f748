"""Does the fuzzer find what it looks for? Known bugs are planted in the compiler, one at a time,
and each must be found.

A bug is an edit of the text of one function. It replaces the function's code in place, so that
tables that hold the function get it, too.
"""

from __future__ import annotations
import __future__

import inspect
import textwrap
from collections.abc import Iterator
from contextlib import closing, contextmanager
from types import CodeType, FunctionType

from xla_backend.passes import (
    algebraic_arithmetic,
    algebraic_reduction,
    algebraic_shape,
    buffer_assignment,
    buffer_sharing,
    buffer_values,
    cse,
    lanes,
    loop_lanes,
    update_predication,
    while_loop_invariant_code_motion,
    while_loop_simplifier,
    while_trip_count,
)
from xla_backend.process.light_dataclasses import dataclass
from xla_backend.tools.fuzz.checks import Failure, check_passes
from xla_backend.tools.fuzz.program import generate
from xla_backend.tools.fuzz.workers import check_all

_SECONDS = 30.0  # for one program: a wrong trip count may make an endless loop


@dataclass(frozen=True)
class Mutant:
    """A bug: `right` in the text of `function` becomes `wrong`, for each pair."""

    name: str
    function: object
    edits: tuple[tuple[str, str], ...]

    @contextmanager
    def planted(self) -> Iterator[None]:
        """The bug is there while the context lasts.

        Raises:
          ValueError: the function no longer has the text that the bug replaces.
        """
        function = self.function
        assert isinstance(function, FunctionType)
        code = function.__code__
        function.__code__ = self._mutated(function)
        try:
            yield
        finally:
            function.__code__ = code

    def _mutated(self, function: FunctionType) -> CodeType:
        source = textwrap.dedent(inspect.getsource(function)).removeprefix("@property\n")
        for right, wrong in self.edits:
            if source.count(right) != 1:
                raise ValueError(
                    f"mutant {self.name}: {function.__qualname__} has {right!r} "
                    f"{source.count(right)} times, not once: adapt the mutant to the new text"
                )
            source = source.replace(right, wrong)
        made: dict[str, FunctionType] = {}
        flags = __future__.annotations.compiler_flag
        exec(compile(source, f"<{self.name}>", "exec", flags), function.__globals__, made)
        return made[function.__name__].__code__


def _mutant(name: str, function: object, *edits: tuple[str, str]) -> Mutant:
    return Mutant(name, function, edits)


_values = buffer_values.BufferValues
_end = buffer_values.BufferSet.end
assert isinstance(_end, property)

MUTANTS = (
    # -- memory ------------------------------------------------------------------------------------
    _mutant(
        "a carry dies with its last reader",
        _values._walk_while,
        ("for view in inside:", "for view in ():"),
    ),
    _mutant(
        "permuted carries share memory",
        _values.can_unite,
        (
            "return not self._interfere",
            "same = x.values[0].instruction is y.values[0].instruction\n"
            "    return same or not self._interfere",
        ),
    ),
    _mutant(
        "any carry of the right type counts as invariant",
        buffer_values.invariant_carries,
        (") == i}", ") is not None}"),
    ),
    _mutant(
        "a live range ends with its first reader",
        buffer_values.View.use,
        ("if time > self.end:", "if time > self.end == self.start:"),
    ),
    _mutant(
        "a buffer ends with its first interval",
        _end.fget,
        ("max(end for _, end, _ in self.intervals)", "self.intervals[0][1]"),
    ),
    _mutant(
        "memory is given away while its last reader runs",
        buffer_assignment._Arena.pack,
        ("(buffer.end, 1, i)", "(max(buffer.start, buffer.end - 1), 1, i)"),
    ),
    _mutant(
        "moved elements count as elementwise",
        buffer_sharing.read_where_written,
        (
            "user.opcode in ELEMENTWISE and user.shape.dimensions == node.shape.dimensions",
            "user.shape.num_elements == node.shape.num_elements",
        ),
    ),
    _mutant(
        "an output stays in a parameter that is not its alias",
        _values._assign_outputs,
        (
            "if buffer.output is not None or (owner is not None and owner != parameter):",
            "if buffer.output is not None:",
        ),
        # Without these two, a copy is still made: of a parameter that nobody gives away, or
        # because the rightful output did not get it.
        ("elif buffer.read_only:", "elif buffer.constant:"),
        (
            "if value is not None and value.buffer.output != number:",
            "if value is not None and value.buffer.output is None:",
        ),
    ),
    _mutant(
        "branches give up their results before they end",
        _values._walk_conditional,
        ("for view in self.leaves[branch.root]:", "for view in ():"),
    ),
    # -- loops -------------------------------------------------------------------------------------
    _mutant(
        "trip counts are rounded down",
        while_trip_count._count,
        ("-(-(limit - start) // step)", "(limit - start) // step"),
    ),
    _mutant(
        "carries that only the condition reads are dropped",
        while_loop_simplifier._needed_carries,
        ("work |= {u.tuple_index for u in condition.parameters[0].users}", "pass"),
    ),
    _mutant(
        "a constant start makes a carry constant",
        while_loop_simplifier._sink_invariants,
        ("if result.tuple_index != i:", "if result.tuple_index > i:"),
    ),
    _mutant(
        "what depends on a permuted carry is moved out of the loop",
        while_loop_invariant_code_motion._worth_hoisting,
        ("if root.operands[node.tuple_index] is node:", "if node in root.operands:"),
    ),
    # -- lanes -------------------------------------------------------------------------------------
    _mutant(
        "dead lanes enter every loop that starts with one tuple",
        lanes.confined,
        ("(len(user.users) != 1 or user.is_root)", "user.is_root"),
    ),
    _mutant(
        "a loop is given a predicate that comes from its result",
        update_predication._predicated,
        (
            "depend_on_any([predicate], loops) or depend_on_any(when_true, later)",
            "depend_on_any(when_true, later)",
        ),
    ),
    _mutant(
        "one branch starts with another that reads it",
        update_predication._predicated,
        (
            "depend_on_any([predicate], loops) or depend_on_any(when_true, later)",
            "depend_on_any([predicate], loops)",
        ),
    ),
    _mutant(
        "a transposed mask keeps out the same lanes",
        loop_lanes.gate,
        ("elif dims != every:", "elif dims != every and operand is not lanes.predicate:"),
    ),
    # -- simplifications ---------------------------------------------------------------------------
    _mutant(
        "cse ignores attributes",
        cse._rest_of_key,
        ("node.shape, attributes, called", "node.shape, called"),
    ),
    _mutant(
        "x * 0 is 0 for floats",
        algebraic_arithmetic._multiply,
        ("if is_int_or_pred(node):", "if node.shape.element_type.is_array:"),
    ),
    _mutant(
        "select under not keeps its arms",
        algebraic_arithmetic._select,
        ("on_false, on_true)", "on_true, on_false)"),
    ),
    _mutant(
        "a narrowing conversion on the way is dropped",
        algebraic_arithmetic._convert,
        ("if not _lossless(", "if not source.is_floating and not _lossless("),
    ),
    _mutant(
        "slices of slices ignore the inner stride",
        algebraic_shape._slice,
        ("s0 + s1 * t0", "s0 + s1"),
    ),
    _mutant(
        "transposes compose in the wrong order",
        algebraic_shape._transpose,
        ("dims_of(inner)[p] for p in permutation", "permutation[p] for p in dims_of(inner)"),
    ),
    _mutant(
        "negative padding cuts at the other end",
        algebraic_shape._pad,
        ("[-v for v in a.low]", "[-v for v in a.high]"),
        ("zip(x.shape.dimensions, a.high)", "zip(x.shape.dimensions, a.low)"),
    ),
    _mutant(
        "negative constant starts count from the end",
        algebraic_shape._dynamic_slice,
        ("min(max(s, 0), d - n)", "min(s, d - n) if s >= 0 else max(d - n + s, 0)"),
    ),
    _mutant(
        "the maximum of copies forgets the initial value",
        algebraic_reduction._reduce_of_broadcast,
        ("(init, x)", "(x, x)"),
    ),
)


def check_seed(seed: int) -> Failure | None:
    return check_passes(generate(seed), seed)


def programs_until_found(
    mutant: Mutant, most: int, jobs: int, seed: int = 0
) -> tuple[int, Failure] | None:
    """How many programs from `seed` on it takes to find a planted bug, and what is found."""
    with mutant.planted():
        answers = check_all(check_seed, range(seed, seed + most), jobs, _SECONDS)
        with closing(answers):
            for number, (_, failure) in enumerate(answers, 1):
                if failure is not None:
                    return number, failure
    return None


def report(most: int, jobs: int, seed: int = 0) -> bool:
    """Print a line for each mutant; whether all were found."""
    missed = 0
    for mutant in MUTANTS:
        found = programs_until_found(mutant, most, jobs, seed)
        missed += found is None
        told = f"not found in {most} programs"
        if found is not None:
            number, failure = found
            told = f"found by program {number}: {str(failure).splitlines()[0]}"
        print(f"{mutant.name}: {told}", flush=True)
    print(f"{len(MUTANTS) - missed} of {len(MUTANTS)} planted bugs found")
    return missed == 0
