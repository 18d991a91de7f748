"""Passes that users register: where they run, that they are checked, and that caches know them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
import xla_backend
from xla_backend import CompileOptions, HloPass, register_pass
from xla_backend.dump_options import DumpOptions
from xla_backend.hlo.attributes import DimensionsAttributes
from xla_backend.hlo.errors import HloError, VerificationError
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import Pipeline
from xla_backend.passes.registry import UnknownPassError, unregister_pass
from xla_backend.targets.cpu.pipeline import build_pipeline
from xla_backend.user_passes import user_passes


class SineToCosinePass(HloPass):
    """A user's pass: wrong on purpose, so that its effect shows in values."""

    name = "sine-to-cosine"
    opcodes = frozenset({Opcode.SINE})

    def run_on_computation(self, computation):
        changed = False
        for node in computation.post_order():
            if node.opcode is Opcode.SINE:
                node.opcode, changed = Opcode.COSINE, True
        return changed


class BreakingPass(HloPass):
    name = "breaking"

    def run(self, module):
        module.entry.root.shape = module.entry.root.shape.with_dimensions((77,))
        return True


class LyingPass(HloPass):
    name = "lying"

    def run(self, module):
        return True


TEXT = "ENTRY e { p = f32[3] parameter(0)  ROOT r = f32[3] sine(p) }"
X = np.array([0.0, 0.5, 1.0], np.float32)


def run_text(options: CompileOptions | None = None) -> np.ndarray:
    return xla_backend.compile(xla_backend.parse_hlo(TEXT), options=options).execute([X])[0]


def test_in_the_library() -> None:
    with register_pass(SineToCosinePass, after="algsimp"):
        np.testing.assert_allclose(run_text(), np.cos(X), rtol=1e-6)
    np.testing.assert_allclose(run_text(), np.sin(X), rtol=1e-6)


@pytest.mark.parametrize("where", [{"before": "fusion"}, {"after": "algsimp"}])
def test_an_instruction_with_another_opcode_is_counted(where: dict[str, str]) -> None:
    """It may be fused, removed and looked for like those that were made with the opcode."""
    text = "ENTRY e { p = f32[3] parameter(0)  s = f32[3] sine(p)  ROOT r = f32[3] add(s, p) }"
    module = xla_backend.parse_hlo(text)
    with register_pass(SineToCosinePass, **where):
        executable = xla_backend.compile(module)
    np.testing.assert_allclose(executable.execute([X])[0], np.cos(X) + X, rtol=1e-6)


def test_opcodes_are_counted_behind_a_users_pass() -> None:
    module = xla_backend.parse_hlo(TEXT)
    assert module.entry is not None
    Pipeline("test", [SineToCosinePass()], CompileOptions()).run(module)
    assert {*module.entry.opcodes} == {Opcode.PARAMETER, Opcode.COSINE}
    assert [n.name for n in module.entry.post_order(Opcode.COSINE)] == ["r"]


def test_in_jit_and_eager_a_changed_set_recompiles() -> None:
    f = pyjax.jit(lambda x: jnp.sin(x))
    x = jnp.asarray(X)
    np.testing.assert_allclose(f(x), np.sin(X), rtol=1e-6)
    with register_pass(SineToCosinePass):
        np.testing.assert_allclose(f(x), np.cos(X), rtol=1e-6)
        np.testing.assert_allclose(jnp.sin(x), np.cos(X), rtol=1e-6)
        with pyjax.enable_x64(True):  # a thread with options of its own
            np.testing.assert_allclose(f(x), np.cos(X), rtol=1e-6)
    np.testing.assert_allclose(f(x), np.sin(X), rtol=1e-6)
    np.testing.assert_allclose(jnp.sin(x), np.sin(X), rtol=1e-6)


def test_the_same_set_again_is_not_compiled_again(caplog: pytest.LogCaptureFixture) -> None:
    f = pyjax.jit(lambda x: jnp.sin(x) * 2)
    x = jnp.asarray(X)
    with pyjax.log_compiles(True):
        for _ in range(2):
            with register_pass(SineToCosinePass):
                f(x)
    assert caplog.text.count("Finished compiling") == 1


@pytest.mark.parametrize(
    "place, neighbours",
    [
        ({}, ("while-trip-count-annotator", "fusion")),
        ({"before": "scheduler"}, ("dce", "scheduler")),
        ({"after": "algsimp"}, ("algebraic-simplifier", "constant-folding")),
        ({"after": "call-inliner"}, ("call-inliner", "call-graph-flattener")),
    ],
)
def test_places(place: dict[str, str], neighbours: tuple[str, str]) -> None:
    with register_pass(SineToCosinePass, **place):
        names = [p.name for p in build_pipeline(CompileOptions()).flat_passes()]
    at = names.index("sine-to-cosine")
    before, after = neighbours
    # Other passes may have come between; the anchor is next to it.
    anchored = names[at - 1] == before or names[at + 1] == after
    assert anchored, names[at - 2 : at + 3]


def test_at_the_end_of_a_phase() -> None:
    with register_pass(SineToCosinePass, phase="simplification"):
        pipeline = build_pipeline(CompileOptions())
    (phase,) = [p for p in pipeline.passes if p.name == "simplification"]
    assert phase.passes[-1].name == "sine-to-cosine"  # type: ignore[attr-defined]


def test_unknown_phase_is_an_error_when_compiling() -> None:
    with register_pass(SineToCosinePass, phase="simplfication"):
        with pytest.raises(UnknownPassError, match="did you mean simplification"):
            run_text()


@pytest.mark.parametrize(
    "factory, message",
    [
        (BreakingPass, "(?s)after pass 'breaking'.*module module_e"),
        (LyingPass, "after pass 'lying': it reported a change of module"),
    ],
)
def test_verified_outside_checking_mode(factory: type[HloPass], message: str) -> None:
    with register_pass(factory), pytest.raises(VerificationError, match=message):
        run_text(CompileOptions(verify=False))


def test_mistakes() -> None:
    with pytest.raises(UnknownPassError, match="no pass is called 'algsim'; did you mean algsimp"):
        register_pass(SineToCosinePass, after="algsim")
    with pytest.raises(ValueError, match="one place, not after and before"):
        register_pass(SineToCosinePass, after="cse", before="cse")
    with pytest.raises(ValueError, match="without a name"):
        register_pass(HloPass)
    with register_pass(SineToCosinePass), pytest.raises(ValueError, match="exists already"):
        register_pass(SineToCosinePass)
    with pytest.raises(UnknownPassError, match="'sine-to-cosine'"):
        unregister_pass("sine-to-cosine")
    assert user_passes() == ()


def test_disabled_by_name_and_seen_in_dumps(tmp_path: Path) -> None:
    with register_pass(SineToCosinePass, after="algsimp"):
        off = CompileOptions(disabled_passes=frozenset({"sine-to-cosine"}))
        np.testing.assert_allclose(run_text(off), np.sin(X), rtol=1e-6)
        run_text(CompileOptions(dump=DumpOptions(to=str(tmp_path), pass_re="sine-to")))
    names = [p.name for p in tmp_path.iterdir() if "sine-to" in p.name]
    assert any("after_sine-to-cosine.before_" in name for name in names)
    assert any(".before_sine-to-cosine.txt" in name for name in names)


class _EditFusions(HloPass):
    """Edits fused computations: changes what they compute, or only how."""

    name = "edit-fusions"

    def run_on_computation(self, computation):
        changed = False
        for fusion in computation.instructions:
            if fusion.opcode is Opcode.FUSION:
                changed |= self.edit(fusion.called[0])
        return changed


class ReversingPass(_EditFusions):
    """The result is read backwards."""

    def edit(self, fused):
        root = fused.root
        attributes = DimensionsAttributes((len(root.shape.dimensions) - 1,))
        fused.set_root(fused.add(Instruction(Opcode.REVERSE, root.shape, (root,), attributes)))
        return True


class NegatingTwicePass(_EditFusions):
    """What the last reduction reads is negated twice."""

    def edit(self, fused):
        for node in reversed(fused.post_order()):
            if node.opcode is Opcode.REDUCE:
                source = node.operands[0]
                for _ in range(2):
                    source = fused.add(Instruction(Opcode.NEGATE, source.shape, (source,)))
                fused.replace_operand(node, 0, source)
                return True
        return False


class SecondReadPass(_EditFusions):
    """The first parameter is read at other elements, too: reversed, twice."""

    def edit(self, fused):
        root, first = fused.root, fused.parameters[0]
        attributes = DimensionsAttributes((len(first.shape.dimensions) - 1,))
        read = first
        for _ in range(2):
            read = fused.add(Instruction(Opcode.REVERSE, read.shape, (read,), attributes))
        difference = fused.add(Instruction(Opcode.SUBTRACT, read.shape, (read, first)))
        fused.set_root(fused.add(Instruction(Opcode.ADD, root.shape, (root, difference))))
        return True


class SwappingPass(_EditFusions):
    """Sums and products with operands in another order: no record minds."""

    def edit(self, fused):
        sums = [n for n in fused.post_order() if n.opcode in (Opcode.ADD, Opcode.MULTIPLY)]
        for node in sums:
            fused.set_operands(node, node.operands[::-1])
        return bool(sums)


def _normalized(x):
    return jnp.exp(x) / jnp.exp(x).sum(-1, keepdims=True)


def _biased(x, w):
    return jnp.tanh(x @ w + x[0])


@pytest.mark.parametrize("platform", ["cpu", "emulator"])
@pytest.mark.parametrize(
    "function, factory",
    [
        (_normalized, ReversingPass),
        (_normalized, NegatingTwicePass),
        (_normalized, SecondReadPass),
        (_biased, ReversingPass),
        (_biased, SecondReadPass),
    ],
)
def test_fusions_that_are_not_what_is_written_on_them(function, factory, platform) -> None:
    x = np.linspace(-1, 1, 32 * 32, dtype=np.float32).reshape(32, 32)
    arguments = [x, x][: function.__code__.co_argcount]
    module = xla_backend.parse_hlo(pyjax.jit(function).lower(*arguments).as_text("hlo"))
    options = CompileOptions(verify=False)
    with register_pass(factory, after="gemm-epilogue-fusion"):
        with pytest.raises(HloError, match=r"backend_config '\{.*does not fit its computation"):
            xla_backend.compile(module, platform, options)


@pytest.mark.parametrize("function", [_normalized, _biased])
def test_fusions_that_are_what_is_written_on_them(function) -> None:
    x = np.linspace(-1, 1, 32 * 32, dtype=np.float32).reshape(32, 32)
    arguments = [x, x][: function.__code__.co_argcount]
    expected = np.asarray(function(*map(jnp.asarray, arguments)))
    module = xla_backend.parse_hlo(pyjax.jit(function).lower(*arguments).as_text("hlo"))
    with register_pass(SwappingPass, after="gemm-epilogue-fusion"):
        (result,) = xla_backend.compile(module).execute(arguments)
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6)
