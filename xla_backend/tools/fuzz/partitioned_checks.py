"""Random programs on several devices: arrays cut in random ways along random meshes, partitioned,
and run in the evaluator by all devices, against the program on one."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from xla_backend.hlo.attributes import CustomCallAttributes
from xla_backend.hlo.evaluator import evaluate_partitioned
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.verifier import verify
from xla_backend.passes.sharding_remover import ShardingRemover
from xla_backend.spmd.annotations import Annotations, sharding_of
from xla_backend.spmd.pipeline import prepare_and_partition
from xla_backend.spmd.specs import PrimeMesh, Spec, whole
from xla_backend.tools.fuzz.checks import Failure, told
from xla_backend.tools.fuzz.comparison import ROUNDS, Expectation
from xla_backend.tools.fuzz.data import arguments_for
from xla_backend.tools.fuzz.program import generate

Axes = Sequence[tuple[str, int]]
_MESHES: tuple[Axes, ...] = (
    (("a", 2),),
    (("a", 3),),
    (("a", 4),),
    (("a", 2), ("b", 2)),
    (("a", 2), ("b", 3)),
    (("a", 8),),
    (("a", 2), ("b", 2), ("c", 2)),
)
# How many instructions of the entry say how they are cut.
_CONSTRAINED_PART = 0.15


def check_partitioned(seed: int) -> Failure | None:
    """The first thing that is wrong with the program of a seed on several devices."""
    try:
        module = cut_at_random(generate(seed), seed)
    except Exception as error:
        return Failure("generation", "", told(error))
    return check_cut(module, seed)


def cut_at_random(module: HloModule, seed: int) -> HloModule:
    """The module for the devices of a random mesh: parameters and results, and some values between
    them, say how they are cut."""
    choices = random.Random(f"cut {seed}")
    mesh = choices.choice(_MESHES)
    module.num_partitions = int(np.prod([size for _, size in mesh]))
    assert module.entry is not None and module.entry.root is not None
    entry = module.entry
    for node in entry.post_order():
        if node is entry.root or node.opcode is Opcode.PARAMETER:
            _say(node, _sharding(choices, mesh, node.shape, even=True))
        elif node.shape.is_array and choices.random() < _CONSTRAINED_PART:
            said = Instruction(
                Opcode.CUSTOM_CALL, node.shape, [node], CustomCallAttributes("Sharding")
            )
            _say(said, _sharding(choices, mesh, node.shape, even=False))
            entry.replace_uses(node, entry.add(said))
    entry.reorder(entry.post_order())
    verify(module)
    return module


def _say(node: Instruction, sharding: str) -> None:
    node.annotations = {**(node.annotations or {}), "sharding": sharding}


def _sharding(choices: random.Random, mesh: Axes, shape: Shape, *, even: bool) -> str:
    """Of an instruction of a shape; `even`: parts must be equal."""
    if shape.is_tuple:
        leaves = [_sharding(choices, mesh, leaf, even=even) for leaf in shape.flatten()]
        return "{" + ", ".join(leaves) + "}"
    left = list(mesh)
    choices.shuffle(left)
    dims = []
    for size in shape.dimensions:
        taken: list[str] = []
        while left and choices.random() < 0.5 and (not even or size % left[-1][1] == 0):
            name, count = left.pop()
            taken.append(f"'{name}'")
            size //= count
        if not even and choices.random() < 0.3:
            taken.append("?")
        dims.append("{" + ", ".join(taken) + "}")
    axes = ",".join(f"'{name}'={size}" for name, size in mesh)
    return f"{{mesh[{axes}], [{', '.join(dims)}]}}"


def check_cut(module: HloModule, seed: int, rounds: Sequence[int] = ROUNDS) -> Failure | None:
    """Run a module whose arrays say how they are cut, on all devices and on one."""
    one = module.clone()
    one.num_partitions = 1
    try:
        ShardingRemover().run(one)
        expectation = Expectation(one, arguments_for(one, seed), rounds)
    except Exception as error:
        return Failure("evaluation", "", told(error))
    parts = module.clone()
    try:
        prepare_and_partition(parts)
        verify(parts)
    except Exception as error:
        return Failure("compilation", "", told(error))
    assert module.entry is not None and module.entry.root is not None
    reader = annotations_of(module)
    specs = [spec for p in module.entry.parameters for spec in specs_of(reader, p)]
    cut = [
        [
            np.array(x[place_of(s, reader.mesh, d, x.shape)])
            for x, s in zip(expectation.arguments, specs)
        ]
        for d in range(module.num_partitions)
    ]
    try:
        got = evaluate_partitioned(parts, cut, seed=0)
    except Exception as error:
        return Failure("execution", "", told(error))
    wanted = specs_of(reader, module.entry.root)
    try:
        joined = [
            _joined([results[k] for results in got], spec, reader.mesh, like.shape)
            for k, (spec, like) in enumerate(zip(wanted, expectation.reference))
        ]
    except ValueError as error:
        return Failure("divergence", "", str(error))
    wrong = expectation.difference(joined)
    return None if wrong is None else Failure("divergence", "", wrong)


def annotations_of(module: HloModule) -> Annotations:
    """The reader of what a module's instructions say."""
    nodes = [node for c in module.computations for node in c.instructions]
    said = [s for node in nodes if (s := sharding_of(node)) is not None]
    return Annotations(said, module.num_partitions)


def specs_of(reader: Annotations, node: Instruction) -> list[Spec]:
    """How the leaves of a parameter, or of the root, are cut."""
    sharding, leaves = sharding_of(node), node.shape.flatten()
    if sharding is None:
        return [whole(leaf) for leaf in leaves]
    each = sharding.elements or (sharding,) * len(leaves)
    return [reader.spec(own, leaf) for own, leaf in zip(each, leaves)]


def place_of(spec: Spec, mesh: PrimeMesh, device: int, dims: Sequence[int]) -> tuple[slice, ...]:
    """Where in an array that is cut evenly the part of a device is."""
    found = []
    for size, axes in zip(dims, spec.dims):
        size //= mesh.count(axes)
        position = mesh.positions(axes)[device]
        found.append(slice(position * size, (position + 1) * size))
    return tuple(found)


def _joined(
    parts: Sequence[np.ndarray], spec: Spec, mesh: PrimeMesh, dims: Sequence[int]
) -> np.ndarray:
    """An array of its parts; devices that have the same part have the same bits."""
    result = np.empty(dims, parts[0].dtype)
    seen: dict[tuple[tuple[int, int], ...], np.ndarray] = {}
    for device, part in enumerate(parts):
        place = place_of(spec, mesh, device, dims)
        before = seen.setdefault(tuple((s.start, s.stop) for s in place), part)
        if before.tobytes() != part.tobytes():
            raise ValueError(f"device {device} has other values than a device with the same part")
        result[place] = part
    return result
