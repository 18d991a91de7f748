"""Runs a program whole, and partitioned on every device, in the evaluator."""

import numpy as np
from pass_checks import STYLE, match_checks

from xla_backend.hlo.evaluator import evaluate, evaluate_partitioned
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.printer import module_to_text
from xla_backend.hlo.verifier import verify
from xla_backend.spmd.annotations import sharding_of
from xla_backend.spmd.pipeline import prepare_and_partition
from xla_backend.tools.fuzz.partitioned_checks import annotations_of, place_of, specs_of

SUM = """sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
"""


def program(body: str, devices: int, called: str = SUM) -> HloModule:
    return parse_module(f"HloModule m, num_partitions={devices}\n{called}ENTRY e {{\n{body}\n}}")


def partitioned(module: HloModule) -> HloModule:
    """A partitioned copy, verified."""
    copy = module.clone()
    assert prepare_and_partition(copy) is not None
    verify(copy)
    return copy


def arguments_of(module: HloModule, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    made = []
    for parameter in module.entry.parameters:
        for shape in parameter.shape.flatten():
            dtype = shape.element_type.numpy_dtype
            if dtype == np.bool_:
                made.append(rng.integers(0, 2, shape.dimensions).astype(bool))
            elif np.issubdtype(dtype, np.integer):
                made.append(rng.integers(-4, 5, shape.dimensions).astype(dtype))
            else:
                made.append(rng.integers(-8, 9, shape.dimensions).astype(dtype))
    return made


def check(body: str, devices: int, called: str = SUM, arguments=None, run=None) -> HloModule:  # type: ignore[no-untyped-def]
    """The partitioned program gives the parts of what the whole one gives: those that the root's
    sharding says. `run` takes a module and each device's arguments; by default the evaluator."""
    module = program(body, devices, called)
    given = arguments_of(module) if arguments is None else arguments
    single = module.clone()
    single.num_partitions = 1
    for computation in single.computations:
        for node in computation.instructions:
            if getattr(node.attributes, "target", "") == "Sharding":
                computation.replace(node, node.operands[0])
    want = evaluate(single, given)
    done = partitioned(module)
    reader = annotations_of(module)
    specs = [s for p in module.entry.parameters for s in specs_of(reader, p)]
    cut = [
        [np.array(x[place_of(s, reader.mesh, d, x.shape)]) for x, s in zip(given, specs)]
        for d in range(devices)
    ]
    got = (run or evaluate_partitioned)(done, cut)
    root = module.entry.root
    assert sharding_of(root) is not None, "the test says how the result is cut"
    for device, results in enumerate(got):
        for x, y, spec in zip(results, want, specs_of(reader, root), strict=True):
            part = y[place_of(spec, reader.mesh, device, y.shape)]
            assert x.shape == part.shape, (x.shape, part.shape)
            if x.dtype.kind in "fc":
                np.testing.assert_allclose(x, part, rtol=1e-5, atol=1e-5)
            else:
                np.testing.assert_array_equal(x, part)
    return done


def check_text(body: str, devices: int, called: str = SUM) -> None:
    """As `check`; the partitioned program also matches the `// CHECK` lines among those of the
    body."""
    printed = module_to_text(check(body, devices, called), STYLE)
    match_checks(body, printed[printed.index("ENTRY") :])


def collectives(module: HloModule) -> dict[str, int]:
    """How many of each there are."""
    names = ("all-gather", "all-reduce", "all-to-all", "collective-permute", "reduce-scatter")
    found: dict[str, int] = {}
    for computation in module.computations:
        for node in computation.instructions:
            if str(node.opcode) in names:
                found[str(node.opcode)] = found.get(str(node.opcode), 0) + 1
    return found
