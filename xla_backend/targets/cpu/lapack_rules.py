"""Calls of LAPACK as library routines: our own for small matrices, LAPACK's for others. Calls that
are wrong are the host's, to refuse, and so are empty ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from xla_backend.hlo.attributes import CustomCallAttributes
from xla_backend.hlo.errors import RuntimeFailure
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType
from xla_backend.passes.patterns import read_leaves
from xla_backend.program.build import ProgramBuilder
from xla_backend.program.ir import Library, Operand, Step, aligned
from xla_backend.program.routines import Kind
from xla_backend.runtime.host_libraries.lapack_arguments import (
    attributes_of,
    check_arguments,
    check_options,
    routine_of,
)
from xla_backend.runtime.host_libraries.library_threads import size_of, threads_of
from xla_backend.runtime.host_rules import HOST_RULES
from xla_backend.targets.cpu.matrix_rules import matrix_step, tasks_of, triangular_step
from xla_backend.targets.cpu.routines.contract_table import ROUTINES
from xla_backend.targets.cpu.routines.lapack_table import LAPACK, tasks_for
from xla_backend.targets.cpu.routines.matrix_facts import (
    ADJOINT,
    BLOCK,
    CONJUGATED,
    LOWER,
    MOST_LANES,
    MOST_ROWS,
    RIGHT,
    TRANSPOSED,
    TYPES,
    UNIT,
    work_elements,
)
from xla_backend.targets.cpu.routines.singular_plan import LEAST, numbers_for
from xla_backend.targets.cpu.routines.singular_plan import TYPES as SINGULAR_TYPES
from xla_backend.targets.cpu.rules import RULES

_PRODUCTS_PER_CYCLE = 16.0
_TRIDIAGONAL_CYCLES = 10  # of a row
_LARGEST_SYSTEM = 1 << 25  # places of lanes are numbers of 32 bits
Options = Mapping[str, int]
Shapes = Sequence[Shape]
# The numbers of a routine behind the count of problems; None: it has no such variant.
Numbers = Callable[[Options, Shapes, Shapes], Sequence[int] | None]


def _is_letter(options: Options, key: str, letter: str, default: str) -> bool:
    return options.get(key, ord(default)) == ord(letter)


def _size(shape: Shape) -> tuple[int, ...]:
    return shape.dimensions[-2:]


def _eigh_numbers(options: Options, operands: Shapes, results: Shapes) -> Sequence[int] | None:
    if not _is_letter(options, "mode", "V", "V"):
        return None
    return operands[0].dimensions[-1], int(_is_letter(options, "uplo", "L", "L"))


def _ormqr_numbers(options: Options, operands: Shapes, results: Shapes) -> Sequence[int]:
    flags = 0 if options.get("left", 1) else RIGHT
    flags |= ADJOINT if options.get("transpose", 0) else 0
    return *_size(operands[2]), operands[1].dimensions[-1], flags


def _svd_numbers(options: Options, operands: Shapes, results: Shapes) -> Sequence[int] | None:
    m, n = _size(operands[0])
    few = min(m, n)
    left, right = results[2].dimensions[-1], results[3].dimensions[-2]
    wanted = {"A": (m, n), "S": (few, few), "N": (few, few)}
    mode = chr(options.get("mode", ord("S")))
    if (left, right) != wanted.get(mode):
        return None
    return (m, n, 0, 0) if mode == "N" else (m, n, left, right)


# Routine of LAPACK: ours, and its numbers.
_CALLS: Mapping[str, tuple[str, Numbers]] = {
    "getrf": ("lu", lambda options, operands, results: _size(operands[0])),
    "syevd": ("eigh", _eigh_numbers),
    "geqrf": ("geqrf", lambda options, operands, results: _size(operands[0])),
    "orgqr": (
        "orgqr",
        lambda options, operands, results: (*_size(operands[0]), operands[1].dimensions[-1]),
    ),
    "ormqr": ("ormqr", _ormqr_numbers),
    "gesdd": ("svd", _svd_numbers),
}


# Of those that we have for larger matrices: elements of memory that a task works in.
_LARGE: Mapping[str, Callable[[int, int], tuple[int, int]]] = {
    "getrf": lambda m, n: (m * MOST_LANES, m * n),
    "geqrf": lambda m, n: (work_elements(m, n), m * BLOCK),
    "orgqr": lambda m, n: (work_elements(m, n), m * BLOCK),
}


# Options that ask for vectors, and the results that these are.
_VECTORS: Mapping[str, Sequence[tuple[str, frozenset[str]]]] = {
    "syevd": [("mode", frozenset({"vectors"}))],
    "gesdd": [("mode", frozenset({"u", "vh"}))],
    "gees": [("mode", frozenset({"vectors"}))],
    "geev": [("compute_left", frozenset({"vl"})), ("compute_right", frozenset({"vr"}))],
}


@RULES.runs(Opcode.CUSTOM_CALL)
def _custom_call(builder: ProgramBuilder, node: Instruction) -> Sequence[Step]:
    attributes = node.attributes
    assert isinstance(attributes, CustomCallAttributes)
    name = routine_of(attributes.target)
    options = attributes_of(attributes)
    if name is None or not _is_right(name, node, options):
        return HOST_RULES[Opcode.CUSTOM_CALL](builder, node)
    if name == "trsm":
        return triangular_step(builder, node, _trsm_flags(options))
    ways = _tridiagonal_step, _small_step, _large_step, _singular_step, _lapack_step
    steps = next((found for way in ways if (found := way(builder, node, name, options))), None)
    return steps or HOST_RULES[Opcode.CUSTOM_CALL](builder, node)


def _is_right(name: str, node: Instruction, options: Options) -> bool:
    """Whether a call is one of ours to run."""
    operands, results = [o.shape for o in node.operands], node.shape.flatten()
    if any(not shape.num_elements for shape in (*operands, *results)):
        return False
    try:
        check_options(name, options)
        check_arguments(name, options, *([_pretended(s) for s in x] for x in (operands, results)))
    except RuntimeFailure:
        return False
    return True


def _pretended(shape: Shape) -> np.ndarray:
    """An array of a shape that takes no memory."""
    return np.broadcast_to(np.zeros((), shape.element_type.numpy_dtype), shape.dimensions)


def _trsm_flags(options: Options) -> int:
    turned = {"N": 0, "T": TRANSPOSED, "C": TRANSPOSED | CONJUGATED}
    flags = turned[chr(options.get("trans_x", ord("N")))]
    for flag, key, letter, default in (
        (RIGHT, "side", "R", "L"),
        (LOWER, "uplo", "L", "L"),
        (UNIT, "diag", "U", "N"),
    ):
        flags |= flag if _is_letter(options, key, letter, default) else 0
    return flags


def _small_step(
    builder: ProgramBuilder, node: Instruction, name: str, options: Options
) -> list[Step]:
    """By our own routine, if it has one for matrices of this size."""
    operands, results = [o.shape for o in node.operands], node.shape.flatten()
    if name not in _CALLS:
        return []
    shapes = [*operands, *results]
    batch = operands[0].rank - 2
    if any(max(shape.dimensions[batch:], default=1) > MOST_ROWS for shape in shapes):
        return []
    ours, numbers_of = _CALLS[name]
    routine = ROUTINES.get(f"{ours}_{operands[0].element_type}")
    if routine is None:
        return []
    arrays = [p.type for p in routine.parameters if p.kind is not Kind.NUMBER]
    numbers = numbers_of(options, operands, results)
    if numbers is None or arrays != [shape.element_type for shape in shapes]:
        return []
    *sizes, m, n = operands[0].dimensions
    batches = math.prod(sizes)
    return matrix_step(builder, node, ours, (batches, *numbers), batches * m * n * (m + n))


def _large_step(
    builder: ProgramBuilder, node: Instruction, name: str, options: Options
) -> list[Step]:
    """By our own products."""
    if name not in _LARGE:
        return []
    ours, numbers_of = _CALLS[name]
    operands, results = [o.shape for o in node.operands], node.shape.flatten()
    type, (*batch, m, n) = operands[0].element_type, operands[0].dimensions
    routine = f"{ours}_blocked_{type}"
    parameters = [p for p in ROUTINES[routine].parameters if p.kind is not Kind.NUMBER][:-2]
    if [p.type for p in parameters] != [shape.element_type for shape in (*operands, *results)]:
        return []
    batches, work = math.prod(batch), m * n * min(m, n)
    tasks = tasks_of(batches, work)
    numbers = numbers_of(options, operands, results)
    assert numbers is not None
    first, second = (Shape.array(type, (tasks, size)) for size in _LARGE[name](m, n))
    arrays = [*map(builder.slice, node.operands)]
    arrays += [builder.slice(node, leaf) for leaf in range(len(results))]
    areas = builder.scratch(first), builder.scratch(second, aligned(first.byte_size))
    cycles = batches * work / _PRODUCTS_PER_CYCLE
    return [Library(node.name, cycles, routine, (batches, *numbers, tasks, *arrays, *areas))]


def _tridiagonal_step(
    builder: ProgramBuilder, node: Instruction, name: str, options: Options
) -> list[Step]:
    """By our own elimination, unless somebody reads the factors."""
    if name != "gtsv" or {0, 1, 2} & {*read_leaves(node)}:
        return []
    x, info = node.shape.flatten()[-2:]
    type, (*batch, n, sides) = x.element_type, x.dimensions
    operands = [operand.shape.element_type for operand in node.operands]
    if type not in TYPES or {*operands} != {type} or info.element_type is not PrimitiveType.S32:
        return []
    if n * sides > _LARGEST_SYSTEM:
        return []
    arrays = [*map(builder.slice, node.operands), *(builder.slice(node, k) for k in (3, 4))]
    numbers = (math.prod(batch), n, sides)
    cycles = float(_TRIDIAGONAL_CYCLES * math.prod(numbers))
    return [Library(node.name, cycles, f"tridiagonal_{type}", (*numbers, *arrays))]


def _needed(
    node: Instruction, name: str, options: Options, results: Sequence[str]
) -> dict[str, int]:
    """The options, without vectors that nobody reads. `results`: their names."""
    read = {results[leaf] for leaf in read_leaves(node)}
    unread = [option for option, vectors in _VECTORS.get(name, ()) if not vectors & read]
    return {**options, **dict.fromkeys(unread, ord("N"))}


def _singular_step(
    builder: ProgramBuilder, node: Instruction, name: str, options: Options
) -> list[Step]:
    """By our own reduction to a bidiagonal matrix."""
    operands, results = [o.shape for o in node.operands], node.shape.flatten()
    type = operands[0].element_type
    if name != "gesdd" or type not in SINGULAR_TYPES:
        return []
    *batch, m, n = operands[0].dimensions
    if min(m, n) < LEAST:
        return []
    if [shape.element_type for shape in results] != [*[type] * 4, PrimitiveType.S32]:
        return []
    if _svd_numbers(options, operands, results) is None:
        return []
    mode = _needed(node, name, options, ("copy", "s", "u", "vh", "info"))
    left, right = results[2].dimensions[-1], results[3].dimensions[-2]
    left, right = (0, 0) if mode.get("mode") == ord("N") else (left, right)
    batches, work = math.prod(batch), m * n * min(m, n)
    alone = numbers_for(batches, 1, m, n, left, right)
    nbytes = alone["elements"] * type.byte_size
    tasks = min(tasks_of(batches, work), tasks_for(batches, nbytes))
    memory = builder.scratch(Shape.array(type, (tasks, alone["elements"])))
    arrays = [*map(builder.slice, node.operands)]
    arrays += [builder.slice(node, leaf) for leaf in range(len(results))]
    numbers = {**alone, "tasks": tasks}.values()
    arguments: tuple[Operand, ...] = (*numbers, *arrays, memory)
    return [Library(node.name, float(batches * work), f"svd_blocked_{type}", arguments)]


def _lapack_step(
    builder: ProgramBuilder, node: Instruction, name: str, options: Options
) -> list[Step]:
    """By LAPACK, on native code's call of it; none if it would not take these arrays."""
    operands, results = [o.shape for o in node.operands], node.shape.flatten()
    type = operands[0].element_type
    routine = LAPACK.get((name, type))
    if routine is None:
        return []
    batch = operands[0].dimensions[: operands[0].rank - len(routine.reads[0].sizes)]
    sizes: dict[str, int] = {}
    for array, shape in zip(routine.arrays, (*operands, *results)):
        if shape.element_type is not array.type_for(type):
            return []
        sizes |= zip(array.sizes, shape.dimensions[len(batch) :])
    chosen = {key: options.get(key, default) for key, default in routine.options.items()}
    if name == "gesdd" and not _has_factors(sizes, chosen):
        return []
    chosen = _needed(node, name, chosen, [a.name for a in routine.arrays[len(operands) :]])
    if name == "gehrd":
        chosen = {"low": chosen["low"] or 1, "high": chosen["high"] or sizes["n"]}
    if name == "gtsv" and sizes["n"] == 1:
        return []
    batches = math.prod(batch)
    matrix = max(operands, key=lambda s: s.rank)
    *_, rows, columns = matrix.dimensions
    threads = threads_of(size_of((rows, columns)))
    ordered = {size: sizes[size] for size in routine.sizes}
    numbers = routine.numbers_for(type, batches, threads or 0, ordered, chosen)
    given = dict(zip(routine.numbers, numbers))
    memory = builder.scratch(Shape.array(PrimitiveType.U8, (given["tasks"] * given["pitch"],)))
    arrays = [*(builder.slice(o) for o in node.operands)]
    arrays += [builder.slice(node, leaf) for leaf in range(len(results))]
    left_out = [None] * (len(routine.arrays) - len(arrays))
    cycles = routine.work * batches * rows * columns * min(rows, columns)
    arguments = (*numbers, *arrays, *left_out, memory)
    return [Library(node.name, cycles, f"lapack_{name}_{type}", arguments)]


def _has_factors(sizes: Mapping[str, int], options: Options) -> bool:
    """Whether the results of gesdd are as large as what it computes."""
    few = min(sizes["m"], sizes["n"])
    wanted = {"A": (sizes["m"], sizes["n"]), "S": (few, few)}.get(chr(options["mode"]))
    return wanted is None or (sizes["l"], sizes["r"]) == wanted
