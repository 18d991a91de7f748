"""Which way of computing a product is taken: what a device measured, kept on disk."""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Sequence
from types import UnionType
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from test_products import dot

from tests.xla_backend.targets.gpu import fake_cupy
from tests.xla_backend.targets.gpu.cuda_programs import remember
from xla_backend.compile_options import CompileOptions
from xla_backend.debug_options import FlagError, parse_flags
from xla_backend.flag_effects import with_flags
from xla_backend.gpu_options import GpuOptions
from xla_backend.hlo.errors import RuntimeFailure
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.verifier import verify
from xla_backend.kernels.library.group_product import GroupTiling
from xla_backend.kernels.library.matrix_product import Tiling
from xla_backend.persistent.settings import cache_settings, change_cache_settings
from xla_backend.program.ir import Launch, Library, Program
from xla_backend.runtime.buffer import OutOfMemory
from xla_backend.targets.gpu import autotuning
from xla_backend.targets.gpu.autotune_results import read_results, write_result
from xla_backend.targets.gpu.autotuning import Autotuner, Trial, trial_module
from xla_backend.targets.gpu.compiler import plan_program
from xla_backend.targets.gpu.cuda import timing
from xla_backend.targets.gpu.cuda.client import CudaClient
from xla_backend.targets.gpu.cuda.device import CudaDevice
from xla_backend.targets.gpu.cuda.timing import CudaTimer
from xla_backend.targets.gpu.generated_code import GeneratedCode
from xla_backend.targets.gpu.product_candidates import Candidate, Choose, Cublas

LARGE = dot("bf16[512,512]", "bf16[512,512]", "f32[512,512]")
SMALL = dot("bf16[64,64]", "bf16[64,64]", "f32[64,64]")


class PretendedTimer:
    """A device that is fast where `fast` says so."""

    def __init__(
        self, fast: type[object] | UnionType = Tiling, model: str = "Pretended GPU"
    ) -> None:
        self.model = model
        self.fast = fast
        self.tried: list[Candidate] = []
        self.made = 0

    def operands(self, module: HloModule) -> int:
        self.made += 1
        return self.made

    def trial(self, module: HloModule, choose: Choose, operands: int, with_results: bool) -> Trial:
        assert operands == self.made
        verify(module)
        seen: list[Candidate] = []

        def watched(node: Instruction, found: Sequence[Candidate]) -> Candidate:
            seen.append(choose(node, found))
            return seen[-1]

        assert module.entry is not None and module.entry.root is not None
        watched(module.entry.root, ())
        (candidate,) = seen
        self.tried.append(candidate)
        seconds = 1.0 if isinstance(candidate, self.fast) else 2.0
        return Trial(seconds, [self.computed(candidate)] if with_results else [])

    def computed(self, candidate: Candidate) -> np.ndarray:
        return np.arange(1000, dtype=np.float32)


@pytest.fixture
def kept(tmp_path):
    """A cache of this test's own."""
    before = cache_settings()
    change_cache_settings(directory=str(tmp_path / "cache"), internal=True, enabled=True)
    yield
    change_cache_settings(directory=before.directory, internal=before.internal)


def steps_with(text: str, tuner: Autotuner) -> tuple[type, ...]:
    plan = plan_program(parse_module(text), CompileOptions(verify=True), tuner)
    return tuple(type(step) for step in plan.program.steps)


def test_what_is_fastest_is_taken(kept):
    library, own = PretendedTimer(Cublas, "one"), PretendedTimer(Tiling, "another")
    assert steps_with(LARGE, Autotuner(library)) == (Library,)
    assert steps_with(LARGE, Autotuner(own)) == (Launch,)
    assert 1 < len(own.tried) <= 9
    assert len(set(own.tried)) == len(own.tried)


def test_a_product_is_tried_once_on_each_model(kept):
    first = PretendedTimer()
    tuner = Autotuner(first)
    for _ in range(2):
        steps_with(LARGE, tuner)
    tried = len(first.tried)
    assert 1 < tried <= 9
    again = PretendedTimer(Cublas)
    assert steps_with(LARGE, Autotuner(again)) == (Launch,), "as it was measured before"
    assert not again.tried
    other = PretendedTimer(Cublas, "another model")
    assert steps_with(LARGE, Autotuner(other)) == (Library,)
    assert other.tried


def test_nothing_is_kept_where_nothing_may_be(kept):
    change_cache_settings(internal=False)
    for _ in range(2):
        timer = PretendedTimer()
        steps_with(LARGE, Autotuner(timer))
        assert timer.tried


def test_small_products_are_not_tried(kept):
    timer = PretendedTimer()
    steps_with(SMALL, Autotuner(timer))
    assert not timer.tried


def test_fusions_are_tried_with_what_is_fused_to_them(kept):
    text = """
    ENTRY e {
      a = bf16[512,512] parameter(0)  b = bf16[512,512] parameter(1)  c = f32[512] parameter(2)
      d = f32[512,512] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      rows = f32[512,512] broadcast(c), dimensions={1}
      ROOT r = f32[512,512] add(d, rows)
    }"""
    timer = PretendedTimer()
    assert steps_with(text, Autotuner(timer)) == (Launch,)
    assert timer.tried and not any(isinstance(c, Cublas) for c in timer.tried)


def test_a_device_times_programs(monkeypatch, kept):
    """The stand-in runs them, however slowly; the result is that of the program."""
    fake_cupy.install(monkeypatch, 1)

    def generated(program: Program, *rest: Any) -> GeneratedCode:
        code = GeneratedCode(program, *rest)
        remember(program, code)
        return code

    monkeypatch.setattr(timing, "GeneratedCode", generated)
    client = CudaClient()
    (device,) = client.devices()
    assert isinstance(device, CudaDevice)
    timer = CudaTimer(device, CompileOptions())
    module = trial_module(root_of(dot("f32[16,16]", "f32[16,16]", "f32[16,16]")))
    operands = timer.operands(module)
    assert len(operands) == 2
    given = operands[0]
    values = given.kind.to_host(given)
    assert set(np.unique(values)) == {0, 1} and (values[0] != values[1]).any()
    trial = timer.trial(module, lambda node, found: found[0], operands, True)
    assert trial.seconds > 0
    lhs, rhs = (each.kind.to_host(each) for each in operands)
    np.testing.assert_array_equal(trial.results[0], lhs @ rhs)
    assert not timer.trial(module, lambda node, found: found[0], operands, False).results
    assert timer.model == "NVIDIA H200"
    options = CompileOptions(gpu=GpuOptions(autotune_level=0))
    assert client._chooser(device, options) is None
    assert client._chooser(device, CompileOptions()) is client._chooser(device, CompileOptions())


def root_of(text: str) -> Instruction:
    entry = parse_module(text).entry
    assert entry is not None and entry.root is not None
    return entry.root


class Refusing(PretendedTimer):
    """A device that does not run what is of one kind."""

    def __init__(self, refused: type[object] | UnionType, error: Exception) -> None:
        super().__init__()
        self.refused, self.error = refused, error

    def trial(self, module: HloModule, choose: Choose, operands: int, with_results: bool) -> Trial:
        found = super().trial(module, choose, operands, with_results)
        if isinstance(self.tried[-1], self.refused):
            raise self.error
        return found


@pytest.mark.parametrize(
    "error", [OutOfMemory("there is none"), RuntimeFailure("too many registers")]
)
@pytest.mark.parametrize(
    ("refused", "taken"), [(Tiling | GroupTiling, Library), (Cublas, Launch), (object, Launch)]
)
def test_what_the_device_refuses_is_not_taken(kept, refused, taken, error):
    """Where it refuses all of them, what should be the fastest is."""
    found = steps_with(LARGE, Autotuner(Refusing(refused, error)))
    assert found == (taken,) or refused is object


def test_the_best_of_each_kind_is_tried(kept):
    """Also where there are many of another that should be faster."""
    timer = PretendedTimer()
    steps_with(dot("bf16[256,16384]", "bf16[16384,256]", "f32[256,256]"), Autotuner(timer))
    assert {Tiling, GroupTiling, Cublas} <= set(map(type, timer.tried))


def test_what_takes_much_memory_is_not_tried(kept):
    timer = PretendedTimer()
    n = 1 << 15
    steps_with(dot(f"bf16[{n},{n}]", f"bf16[{n},{n}]", f"f32[{n},{n}]"), Autotuner(timer))
    assert not timer.tried


def test_other_settings_are_tried_anew(kept):
    first, second = PretendedTimer(), PretendedTimer()
    steps_with(LARGE, Autotuner(first, "a"))
    steps_with(LARGE, Autotuner(second, "b"))
    assert first.tried and second.tried


def test_operands_are_made_once(kept):
    timer = PretendedTimer()
    steps_with(LARGE, Autotuner(timer))
    assert timer.made == 1 and len(timer.tried) > 4


class Wrong(PretendedTimer):
    """A device on which the fastest way computes something else, in one element."""

    def __init__(self, by: float, type: type = np.float32) -> None:
        super().__init__(Tiling | GroupTiling)
        self.by, self.type = by, type

    def computed(self, candidate: Candidate) -> np.ndarray:
        found = super().computed(candidate).astype(self.type)
        found[500] += self.type(self.by if isinstance(candidate, self.fast) else 0)
        return found


@pytest.mark.parametrize(
    ("by", "type", "right"),
    [(0, np.float32, True), (1e-5, np.float32, True), (1, np.float32, False)]
    + [(1e-5, np.float16, True), (0.5, np.float16, True), (2, np.float16, False)]
    + [(np.nan, np.float32, False), (np.inf, np.float16, False), (1, np.int32, False)],
)
def test_what_computes_something_else_is_not_taken(kept, caplog, by, type, right):
    """But for rounding; and somebody is told."""
    assert steps_with(LARGE, Autotuner(Wrong(by, type))) == ((Launch,) if right else (Library,))
    said = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert bool(said) != right
    assert all("wrong" in text and "(500,)" in text and "Pretended GPU" in text for text in said)
    # It is remembered as well; a user may want no check.
    assert steps_with(LARGE, Autotuner(Wrong(0, type))) == ((Launch,) if right else (Library,))
    assert steps_with(LARGE, Autotuner(Wrong(by, type), "unchecked", check=False)) == (Launch,)


def test_a_part_of_the_sum_that_is_missing_is_found():
    """One slab of many is little of a sum of positive numbers."""
    some = np.random.default_rng(0).integers(0, 2, 1_000_003, np.int8).astype(np.float32)
    lhs, rhs = np.resize(some, (64, 8192)), np.resize(some, (8192, 64))
    for type in (np.float32, np.float16, ml_dtypes.bfloat16):
        whole = (lhs @ rhs).astype(type)
        assert not autotuning._difference([whole], [whole.copy()], True)
        for lost in (64, 512) if type is ml_dtypes.bfloat16 else (1, 64):
            part = (lhs[:, :-lost] @ rhs[:-lost]).astype(type)
            found = autotuning._difference([whole], [part], True)
            assert bool(found) == (type is np.float32 or lost > 1), (type, lost)


@pytest.mark.parametrize("type", [np.float32, np.complex64, ml_dtypes.bfloat16])
@pytest.mark.parametrize("is_bare", [True, False])
def test_what_is_not_finite_has_to_be_the_same(type, is_bare):
    """And nobody is warned of it."""
    want = np.array([1, np.inf, -np.inf, np.nan, 2]).astype(type)
    got = want.copy()
    got[4] += type(2**-7)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert bool(autotuning._difference([want], [got], is_bare)) == (
            is_bare and type is not ml_dtypes.bfloat16
        )
        for at, other in ((0, np.nan), (1, 1), (1, -np.inf), (2, np.nan), (3, 5)):
            got = want.copy()
            got[at] = other
            assert autotuning._difference([want], [got], is_bare)


class Full(PretendedTimer):
    """A device without memory for operands."""

    def operands(self, module: HloModule) -> int:
        raise OutOfMemory("there is none")


def test_a_full_device_is_tried_another_time(kept):
    """Nothing is remembered on disk of one that ran nothing."""
    assert len(steps_with(LARGE, Autotuner(Full()))) == 1
    refusing = Refusing(object, OutOfMemory("there is none"))
    steps_with(LARGE, Autotuner(refusing))
    timer = PretendedTimer()
    steps_with(LARGE, Autotuner(timer))
    assert refusing.tried and timer.tried


def test_results_in_files(kept, tmp_path):
    change_cache_settings(internal=False)
    path = str(tmp_path / "results.json")
    first = PretendedTimer(Cublas)
    assert steps_with(LARGE, Autotuner(first, dump=path)) == (Library,)
    content = json.loads((tmp_path / "results.json").read_text())
    assert content["version"] == 1 and len(content["seconds"]) == 1
    assert [p.name for p in tmp_path.iterdir() if "results" in p.name] == ["results.json"]
    other = PretendedTimer(Tiling)
    again = Autotuner(other, load=path, dump=path)
    assert steps_with(LARGE, again) == (Library,) and not other.tried
    # One more product: both are in the file.
    steps_with(dot("bf16[512,256]", "bf16[256,512]", "f32[512,512]"), again)
    assert other.tried
    assert len(json.loads((tmp_path / "results.json").read_text())["seconds"]) == 2
    # Another model knows nothing of them.
    stranger = PretendedTimer(Tiling, "another")
    assert steps_with(LARGE, Autotuner(stranger, load=path)) == (Launch,) and stranger.tried


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, r"the file cannot be read \(No such file"),
        ("nonsense", "the file is no JSON"),
        ('{"version": 2, "seconds": {}}', "the file has no results; take one that"),
        ("[]", "the file has no results"),
        ('{"version": 1, "seconds": {"key": [1, 2]}}', "the file has no results"),
    ],
)
def test_files_without_results_are_errors(content, words, tmp_path):
    path = tmp_path / "results.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(FlagError, match=rf"--xla_gpu_load_autotune_results_from={path}: {words}"):
        Autotuner(PretendedTimer(), load=str(path))


def test_threads_write_one_file(tmp_path):
    path = tmp_path / "results.json"
    failed = []

    def write(thread):
        try:
            for i in range(50):
                write_result(str(path), f"{thread}, {i}", {"a": 1.0, "b": float("inf")})
        except Exception as error:  # whatever it is: shown below
            failed.append(error)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert read_results(str(path)) == {f"{n}, {i}": {"a": 1.0} for n in range(4) for i in range(50)}


def test_a_file_that_cannot_be_written_names_the_flag(tmp_path):
    path = tmp_path / "missing" / "results.json"
    with pytest.raises(FlagError, match=rf"--xla_gpu_dump_autotune_results_to={path}: .*No such"):
        write_result(str(path), "key", {"a": 1.0})


def test_files_of_results_by_flags(monkeypatch, kept, tmp_path):
    """Two compilations with other files are measured alike: the files are no part of the key."""
    fake_cupy.install(monkeypatch, 1)
    client = CudaClient()
    (device,) = client.devices()
    path = tmp_path / "results.json"
    path.write_text('{"version": 1, "seconds": {"a": {"b": 1.0}}}')
    plain, reading, writing = (
        client._chooser(device, with_flags(CompileOptions(), parse_flags(text)))
        for text in (
            "",
            f"--xla_gpu_load_autotune_results_from={path}",
            f"--xla_gpu_dump_autotune_results_to={path}",
        )
    )
    assert plain._settings == reading._settings == writing._settings
    assert reading._loaded == {"a": {"b": 1.0}} and writing._dump == str(path)
