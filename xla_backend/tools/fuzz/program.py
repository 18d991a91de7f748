"""Random programs: a seed gives a module, well typed because shape inference checks every step."""

from __future__ import annotations

import random
from collections.abc import Callable

from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.module import HloModule, InputOutputAlias
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.verifier import verify
from xla_backend.tools.fuzz import (
    carry_steps,
    control_steps,
    elementwise_steps,
    indexing_steps,
    lane_steps,
    library_steps,
    scenarios,
    shape_steps,
    simplifiable_steps,
    window_steps,
)
from xla_backend.tools.fuzz.data import profile_of
from xla_backend.tools.fuzz.scope import LARGE, SMALL, Scope, palette

Step = Callable[[Scope], None]

_PLAIN: list[tuple[float, Step]] = [
    *elementwise_steps.STEPS,
    *shape_steps.STEPS,
    *indexing_steps.STEPS,
    *window_steps.STEPS,
    *library_steps.STEPS,
    *scenarios.STEPS,
    *simplifiable_steps.STEPS,
]
_CALLING = [*control_steps.STEPS, *carry_steps.STEPS, *lane_steps.STEPS]
# Loops in loops, and no deeper.
_DEPTH = 2
# How many programs work on larger arrays, and how many steps call a computation.
_LARGE_PART = 0.12
_CALLING_PART = 0.16
# Steps of a program: most programs are small, because small ones compile, and shrink, quickly.
_LENGTHS = ((2, 6), (4, 10), (6, 16), (12, 30), (30, 60))
_LENGTH_WEIGHTS = (4, 5, 4, 2, 0.4)


def generate(seed: int) -> HloModule:
    """The random program of this seed: the same one for the same version of the generator."""
    choices = random.Random(f"program {seed}")
    scale = LARGE if choices.random() < _LARGE_PART else SMALL
    types, profile = palette(choices), profile_of(seed)
    scope = Scope("main", choices, types, profile, scale, depth=_DEPTH, is_entry=True)
    low, high = choices.choices(_LENGTHS, _LENGTH_WEIGHTS)[0]
    grow(scope, choices.randint(low, high))
    outputs = _outputs(scope)
    module = HloModule(f"fuzz_{seed}")
    single = len(outputs) == 1 and scope.chance(0.6)
    root = outputs[0] if single else scope.builder.tuple(outputs)
    module.add_computation(scope.builder.build(root), entry=True)
    if not single and scope.chance(0.3):
        _donate(scope, module, outputs)
    verify(module)
    return module


def grow(scope: Scope, steps: int) -> None:
    """Add random steps to a computation."""
    for _ in range(steps):
        if scope.depth > 0 and scope.chance(_CALLING_PART):
            weights = [weight for weight, _ in _CALLING]
            ((_, with_body),) = scope.random.choices(_CALLING, weights)
            with_body(scope, grow)
        else:
            weights = [weight for weight, _ in _PLAIN]
            ((_, step),) = scope.random.choices(_PLAIN, weights)
            step(scope)


def _outputs(scope: Scope) -> list[Instruction]:
    """One to five values, those first that nothing uses; now and then one twice, an input or a
    constant."""
    unused = [v for v in scope.values if not v.users and v.opcode is not Opcode.PARAMETER]
    outputs = unused[-scope.between(1, 5) :]
    if scope.values and (not outputs or scope.chance(0.2)):
        outputs.append(scope.one_of(scope.values))
    if not outputs or scope.chance(0.05):
        outputs.append(scope.constant(Shape.array(scope.element_type(), (2,))))
    parameters = scope.builder.computation.parameters
    if parameters and scope.chance(0.08):
        outputs.append(scope.one_of(parameters))
    return outputs


def _donate(scope: Scope, module: HloModule, outputs: list[Instruction]) -> None:
    """Outputs may take the buffers of parameters of the same shape."""
    aliases: list[InputOutputAlias] = []
    assert module.entry is not None
    for number, parameter in enumerate(module.entry.parameters):
        taken = {alias.output_index[0] for alias in aliases}
        for k, output in enumerate(outputs):
            if k not in taken and output.shape == parameter.shape and scope.chance(0.8):
                aliases.append(InputOutputAlias((k,), number))
                break
    module.aliases = tuple(aliases)
