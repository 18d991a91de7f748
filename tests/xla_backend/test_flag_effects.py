"""Every acting flag is observed to act; the list of flags says which do."""

from __future__ import annotations

import logging
import re
import time
from pathlib import Path

import numpy as np
import pytest
from pyjax._config import options as config_options

import pyjax
import pyjax.numpy as jnp
import xla_backend
from xla_backend import debug_options, flags
from xla_backend.compile_options import CompileOptions
from xla_backend.debug_options import DebugOptions, FlagError, parse_flags, set_option
from xla_backend.flag_effects import ACTING, with_flags
from xla_backend.gpu_options import GpuOptions
from xla_backend.hlo.evaluator import evaluate
from xla_backend.inert_distribution_flags import INERT_DISTRIBUTION_FLAGS
from xla_backend.llvm.target import host_target
from xla_backend.passes.registry import UnknownPassError
from xla_backend.passes.unstable_reduction_detector import UnstableReductionError
from xla_backend.runtime.host_threads import num_threads, set_num_threads
from xla_backend.targets.cpu.pipeline import build_pipeline
from xla_backend.xla_flag_meanings import MEANINGS
from xla_backend.xla_flag_table import ENUM_VALUES, FLAGS, WIDE_INTEGERS

X86 = host_target().is_x86
WIDE = host_target().vector_bits > 256

# One loop over many elements: wide vectors, blocks for several threads.
LARGE = """ENTRY e {
  x = f32[1048576] parameter(0)
  y = f32[1048576] divide(x, x)
  z = f32[1048576] add(y, x)
  ROOT r = f32[1048576] exponential(z)
}"""


def options_of(text: str) -> CompileOptions:
    return with_flags(CompileOptions(), parse_flags(text))


def compiled(flags_text: str, text: str = LARGE) -> xla_backend.Executable:
    return xla_backend.compile(xla_backend.parse_hlo(text), options=options_of(flags_text))


def llvm_ir(flags_text: str, text: str = LARGE) -> str:
    return str(compiled(flags_text, text).texts()["llvm"])


def widest_vector(flags_text: str) -> int:
    """Bits of the widest vector of floats in the code."""
    return max(32 * int(n) for n in re.findall(r"<(\d+) x float>", llvm_ir(flags_text)))


def pass_names(flags_text: str) -> set[str]:
    pipeline = build_pipeline(options_of(flags_text))
    return {p.name for p in pipeline.flat_passes() if pipeline.selects(p.name)}


def test_defaults_change_nothing() -> None:
    base = CompileOptions()
    assert with_flags(base, parse_flags("")) is base


def test_backend_optimization_level() -> None:
    assert pass_names("--xla_backend_optimization_level=0") < pass_names("")
    assert pass_names("--xla_backend_optimization_level=1") == pass_names("")


def test_presets() -> None:
    assert pass_names("--xla_cpu_opt_preset=FAST_COMPILE") < pass_names("")
    assert options_of("--xla_cpu_opt_preset=CPU_OPT_PRESET_FAST_RUNTIME").level == 3


def test_disabled_enabled_and_all() -> None:
    assert pass_names("") - pass_names("--xla_disable_hlo_passes=fusion,cse") == {"fusion", "cse"}
    only = pass_names("--xla_enable_hlo_passes_only=fusion")
    none = pass_names("--xla_disable_all_hlo_passes")
    assert only - none == {"fusion"}
    # Level 0 is about speed; rematerialization has levels of its own.
    least = pass_names("--xla_backend_optimization_level=0")
    assert none == least - {"rematerialization"}
    with pytest.raises(FlagError, match="exclude each other"):
        options_of("--xla_disable_hlo_passes=cse --xla_enable_hlo_passes_only=dce")
    with pytest.raises(UnknownPassError, match=r"'fusoin' in xla_disable_hlo_passes.*fusion"):
        pass_names("--xla_disable_hlo_passes=fusoin")


CHAINS = """ENTRY e {
  x = f32[8] parameter(0)
  a = f32[8] sine(x)
  ra = f32[8] reverse(a), dimensions={0}
  sa = f32[8] sort(ra), dimensions={0}, to_apply=less
  b = f32[8] cosine(sa)
  sb = f32[8] sort(b), dimensions={0}, to_apply=less
  ROOT c = f32[8] exponential(sb)
}"""
LESS = """HloModule m

less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}

"""


@pytest.mark.parametrize("units", range(4))
def test_fuel_counts_fusions(units: int, caplog: pytest.LogCaptureFixture) -> None:
    module = xla_backend.parse_hlo(LESS + CHAINS)
    x = np.linspace(-2, 2, 8, dtype=np.float32)
    expected = evaluate(module, [x])[0]
    with caplog.at_level(logging.WARNING, "xla_backend"):
        executable = compiled(f"--xla_fuel=fusion={units}", LESS + CHAINS)
    assert str(executable.texts()["hlo"]).count(" fusion(") == min(units, 3)
    assert ('Out of fuel for "fusion"' in caplog.text) == (units < 3)
    np.testing.assert_allclose(executable.execute([x])[0], expected, rtol=1e-6)


def test_fuel_knows_names_of_xla_and_refuses_others() -> None:
    assert build_pipeline(options_of("--xla_fuel=algsimp=3")).options.fuel == (
        ("algebraic-simplifier", 3),
    )
    with pytest.raises(UnknownPassError, match=r"'fuson' in xla_fuel; did you mean fusion"):
        pass_names("--xla_fuel=fuson=3")


@pytest.mark.parametrize(
    "flag, name",
    [
        ("xla_hlo_pass_fix_detect_cycles", "cycles"),
        ("xla_unsupported_crash_on_hlo_pass_fix_max_iterations", "max-iterations"),
        ("xla_unsupported_crash_on_hlo_pass_noop_change", "no-op-change"),
        ("xla_unsupported_crash_on_hlo_pass_silent_hlo_change", "silent-change"),
    ],
)
def test_audits(flag: str, name: str) -> None:  # what each does: test_pass_machinery.py
    assert options_of(f"--{flag}").audits == {name}
    compiled(f"--{flag}")  # no built-in pass is caught


BF16_SUM = """HloModule m

add {
  a = bf16[] parameter(0)
  b = bf16[] parameter(1)
  ROOT s = bf16[] add(a, b)
}

ENTRY e {
  x = bf16[64] parameter(0)
  zero = bf16[] constant(0)
  ROOT r = bf16[] reduce(x, zero), dimensions={0}, to_apply=add, metadata={source_file="u.py" source_line=3}
}
"""  # noqa: E501


@pytest.mark.parametrize(
    "flag",
    ["xla_detect_unstable_reductions", "xla_detect_unstable_reductions_post_optimizations"],
)
def test_unstable_reductions_are_named(flag: str, caplog: pytest.LogCaptureFixture) -> None:
    message = r"unstable reduction in module 'm': .*reduce.* adds up in bf16\n  u.py:3\n.*f32"
    with caplog.at_level(logging.WARNING, "xla_backend"):
        compiled(f"--{flag}=DETECTION_MODE_WARNING", BF16_SUM)
    assert len(re.findall(message, caplog.text)) == 1
    with pytest.raises(UnstableReductionError, match=message):
        compiled(f"--{flag}=DETECTION_MODE_FAIL", BF16_SUM)
    for harmless in (BF16_SUM.replace("bf16", "f32"), BF16_SUM.replace(" add(", " maximum(")):
        compiled(f"--{flag}=DETECTION_MODE_FAIL", harmless)


def test_fast_math_marks_the_arithmetic() -> None:
    assert not re.search(r"\bfdiv \w*(nnan|reassoc)", llvm_ir(""))
    honoured = llvm_ir("--xla_cpu_enable_fast_math")
    assert "fdiv reassoc nsz contract <" in honoured


@pytest.mark.parametrize(
    "guard, flag",
    [
        ("xla_cpu_fast_math_honor_nans", "nnan"),
        ("xla_cpu_fast_math_honor_infs", "ninf"),
        ("xla_cpu_fast_math_honor_division", "arcp"),
        ("xla_cpu_fast_math_honor_functions", "afn"),
    ],
)
def test_fast_math_guards(guard: str, flag: str) -> None:
    text = llvm_ir(f"--xla_cpu_enable_fast_math --{guard}=false")
    assert f"fdiv reassoc nsz contract {flag} <" in text


@pytest.mark.skipif(not X86, reason="instruction sets of x86")
@pytest.mark.parametrize("isa, bits", [("SSE4_2", 128), ("avx", 128), ("AVX2", 256)])
def test_newest_instruction_set(isa: str, bits: int) -> None:
    assert widest_vector(f"--xla_cpu_max_isa={isa}") == 2 * bits  # two registers at a time
    x = np.linspace(0.5, 1, 1 << 20, dtype=np.float32)
    got = compiled(f"--xla_cpu_max_isa={isa}").execute([x])[0]
    np.testing.assert_allclose(got, np.exp(1 + x), rtol=3e-6)


def test_unknown_instruction_set() -> None:
    with pytest.raises(FlagError, match="xla_cpu_max_isa=AVX3: expected one of SSE4_2, AVX"):
        compiled("--xla_cpu_max_isa=AVX3")


@pytest.mark.skipif(not WIDE, reason="a machine with vectors of more than 256 bits")
def test_preferred_vector_width() -> None:
    assert widest_vector("--xla_cpu_prefer_vector_width=128") == 256
    assert widest_vector("") == 2 * host_target().vector_bits  # the default is the machine's


def test_one_thread() -> None:
    assert "@pyjax_parallel_for" in llvm_ir("")
    serial = compiled("--xla_cpu_multi_thread_eigen=false")
    text = str(serial.texts()["llvm"])
    assert "pyjax.serial_for" in text and "@pyjax_parallel_for" not in text
    x = np.linspace(0.5, 1, 1 << 20, dtype=np.float32)
    np.testing.assert_array_equal(serial.execute([x])[0], compiled("").execute([x])[0])


PRODUCT = """ENTRY e {
  x = f32[640,640] parameter(0)
  ROOT r = f32[640,640] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}"""


def test_one_thread_in_library_kernels() -> None:
    serial = compiled("--xla_cpu_multi_thread_eigen=false", PRODUCT)
    x = np.linspace(0, 1, 640 * 640, dtype=np.float32).reshape(640, 640)
    threads = num_threads()
    set_num_threads(4)
    try:
        (want,) = compiled("", PRODUCT).execute([x])  # starts the pool's workers
        shares = []
        for _ in range(3):
            time.sleep(0.001)  # they fall asleep
            everybody, here = time.process_time(), time.thread_time()
            (got,) = serial.execute([x])
            shares.append((time.thread_time() - here) / (time.process_time() - everybody))
    finally:
        set_num_threads(threads)
    assert max(shares) > 0.9
    np.testing.assert_array_equal(got, want)


def test_parallel_codegen_split_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xla_backend.llvm.partition._PART_CHARACTERS", 200)
    monkeypatch.setattr("xla_backend.llvm.partition._CPUS", 4)

    def units(folder: str, *more: str) -> list[str]:
        text = LESS + CHAINS.replace("[8]", "[4096]")
        compiled(" ".join((f"--xla_dump_to={tmp_path}/{folder}", *more)), text)
        return sorted(p.name for p in (tmp_path / folder).glob("*.o"))

    assert len(units("many")) > 1
    assert len(units("one", "--xla_cpu_parallel_codegen_split_count=1")) == 1
    with pytest.raises(FlagError, match="it must be from 1 to 1024"):
        options_of("--xla_cpu_parallel_codegen_split_count=0")


def test_flags_reset_reads_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debug_options, "_current", None)
    monkeypatch.setenv("XLA_FLAGS", "--xla_flags_reset --xla_dump_to=a")
    assert debug_options.current_debug_options().xla_dump_to == "a"
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=b")
    assert debug_options.current_debug_options().xla_dump_to == "b"
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=c")
    assert debug_options.current_debug_options().xla_dump_to == "b"


def test_environment_acts_in_the_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(debug_options, "_current", None)
    monkeypatch.setenv("XLA_FLAGS", f"--xla_dump_to={tmp_path}")
    xla_backend.compile(xla_backend.parse_hlo(LARGE))
    assert list(tmp_path.glob("*.before_optimizations.txt"))
    monkeypatch.setattr(debug_options, "_current", None)


def test_options_of_jit_and_of_compile(tmp_path: Path) -> None:
    first, second = tmp_path / "jit", tmp_path / "compile"
    f = pyjax.jit(lambda x: jnp.sin(x) * 2, compiler_options={"xla_dump_to": str(first)})
    f(jnp.ones(5))
    f.lower(jnp.ones(5)).compile(
        {"xla_dump_to": str(second), "xla_dump_hlo_as_text": True, "xla_fuel": {"fusion": 0}}
    )
    assert list(first.glob("*.part_00.ir-no-opt.ll")) and list(second.glob("*.debug_options"))
    (path,) = second.glob("*.cpu_after_optimizations.txt")
    assert "fusion(" not in path.read_text()


@pytest.mark.parametrize("option, level", [("O0", 0), ("O3", 3), ("UNKNOWN", 2)])
def test_levels_of_jax(option: str, level: int, tmp_path: Path) -> None:
    lowered = pyjax.jit(lambda x: jnp.sin(x) + jnp.sin(x)).lower(jnp.ones(5))
    with config_options.optimization_level(option):
        lowered.compile({"xla_dump_to": str(tmp_path), "xla_dump_module_metadata": True})
    (path,) = tmp_path.glob("module_*.metadata.textproto")
    assert ('"cse"' in path.read_text()) == (level > 0)


def test_effort_of_jax(tmp_path: Path) -> None:
    lowered = pyjax.jit(lambda x: jnp.sin(x) + jnp.sin(x)).lower(jnp.ones(5))
    with config_options.exec_time_optimization_effort(-1.0):
        lowered.compile({"xla_dump_to": str(tmp_path), "xla_dump_module_metadata": True})
    (path,) = tmp_path.glob("module_*.metadata.textproto")
    assert '"cse"' not in path.read_text()


# -- the table -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, expected",
    [
        ("xla_gpu_deterministic_ops", {"deterministic": True}),
        ("xla_gpu_exclude_nondeterministic_ops", {"deterministic": True}),
        ("xla_gpu_enable_scatter_determinism_expander", {"deterministic": True}),
        ("xla_gpu_autotune_level=0", {"autotune_level": 0}),
        ("xla_gpu_dump_autotune_results_to=a", {"autotune_results": "a"}),
        ("xla_gpu_load_autotune_results_from=b", {"autotuned_before": "b"}),
        ("xla_gpu_enable_command_buffer=", {"graphs": False}),
        ("xla_gpu_enable_command_buffer=-fusion", {}),
        ("xla_gpu_ftz", {"flush_denormals": True}),
        ("xla_gpu_all_gather_combine_threshold_bytes=7", {"all_gather_bytes": 7}),
        ("xla_gpu_all_reduce_combine_threshold_bytes=0", {"all_reduce_bytes": 0}),
        ("xla_gpu_reduce_scatter_combine_threshold_bytes=9", {"reduce_scatter_bytes": 9}),
        ("xla_gpu_collective_combine_threshold_count=2", {"combined_collectives": 2}),
        ("xla_gpu_nccl_termination_timeout_seconds=30", {"collective_timeout": 30}),
        ("xla_gpu_cuda_data_dir=/opt/cuda", {"toolkit": "/opt/cuda"}),
        ("xla_gpu_fail_ptx_compilation_on_register_spilling", {"refuse_spills": True}),
        ("xla_gpu_disable_gpuasm_optimizations", {"assembler_flags": ("-O0",)}),
        ("xla_gpu_ptx_compiler_extra_flags=-v,-w", {"assembler_flags": ("-v", "-w")}),
        ("xla_gpu_ptx_file=a --xla_gpu_ptx_file=b", {"ptx_files": ("a", "b")}),
        ("xla_gpu_llvm_ir_file=a,b", {"llvm_files": ("a", "b")}),
        ("xla_fuel=cse=1", {}),
    ],
)
def test_options_of_gpus(text: str, expected: dict[str, object]) -> None:
    """What these do is tested in tests/xla_backend/targets/gpu."""
    assert options_of(f"--{text}").gpu == GpuOptions(**expected)  # type: ignore[arg-type]


def test_levels_of_autotuning_that_there_are_not() -> None:
    with pytest.raises(FlagError, match="it must be from 0 to 4"):
        parse_flags("--xla_gpu_autotune_level=5")


def test_every_flag_has_a_meaning_and_enums_have_values() -> None:
    names = {name for name, _, _ in FLAGS}
    assert set(MEANINGS) == names >= ACTING and WIDE_INTEGERS <= names
    assert all(MEANINGS.values())
    for name, kind, default in FLAGS:
        if kind == "enum":
            assert default in ENUM_VALUES[name], name
        elif name in ENUM_VALUES:
            assert set(default) <= set(ENUM_VALUES[name]), name


_OF_DISTRIBUTION = re.compile(
    r"collective|all_gather|all_reduce|all_to_all|reduce_scatter|nccl|nvshmem|spmd|shard|partition"
    r"|ragged|permute|windowed|host_platform"
)


def test_flags_of_distribution_act_or_say_why_not() -> None:
    named = {name for name, _, _ in FLAGS if _OF_DISTRIBUTION.search(name)}
    inert = set(INERT_DISTRIBUTION_FLAGS)
    assert inert <= {name for name, _, _ in FLAGS} and not inert & ACTING
    assert named <= inert | ACTING, named - inert - ACTING
    for name, reason in INERT_DISTRIBUTION_FLAGS.items():
        assert options_of(f"--{name}={_other_value(name)}") == options_of(""), name
        assert flags.listing([name])[2:3] == [f"    No effect: {reason}."]


def _other_value(name: str) -> str:
    """Not the default."""
    (kind, default), *_ = [(kind, default) for flag, kind, default in FLAGS if flag == name]
    if kind == "enum":
        return next(value for value in ENUM_VALUES[name] if value != default)
    if kind == "bool":
        return str(not default).lower()
    return "7" if kind in ("int", "float") else "ALLREDUCE" if name in ENUM_VALUES else "x"


def test_every_acting_flag_is_in_a_test() -> None:
    folder = Path(__file__).parent
    texts = [p.read_text() for p in (folder / "test_flag_effects.py", folder / "test_dump.py")]
    elsewhere = {
        "xla_cpu_collective_call_warn_stuck_timeout_seconds",  # tests/pyjax/distributed
        "xla_cpu_collective_timeout_seconds",  # tests/pyjax/distributed
        # tests/xla_backend/targets/cpu/test_overlapping_meetings.py
        "xla_cpu_enable_concurrency_optimized_scheduler",
        "xla_force_host_platform_device_count",  # tests/pyjax/test_sharding.py
    }
    tested = set(re.findall(r"xla_\w+", "".join(texts))) | elsewhere
    assert ACTING <= tested, ACTING - tested


@pytest.mark.parametrize(
    "name, text, value",
    [
        ("xla_cpu_opt_preset", "FAST_COMPILE", "CPU_OPT_PRESET_FAST_COMPILE"),
        ("xla_gpu_shape_checks", "IGNORE", "IGNORE"),
        ("xla_cpu_max_isa", "avx2", "AVX2"),
        ("xla_gpu_enable_command_buffer", "", ()),
        ("xla_gpu_enable_command_buffer", "fusion", ("FUSION",)),
        ("xla_cpu_experimental_ynn_fusion_type", "-reduce,+eltwise", None),
        ("xla_fuel", "fusion=3,cse=0", (("fusion", 3), ("cse", 0))),
        ("xla_fuel", {"fusion": 3}, (("fusion", 3),)),
        ("xla_disable_hlo_passes", ["a", "b"], ("a", "b")),
        ("xla_dump_to", Path("x"), "x"),
        ("xla_dump_hlo_as_text", True, True),
        ("xla_gpu_autotune_gemm_rtol", "1e-2", 0.01),
    ],
)
def test_values(name: str, text: object, value: object) -> None:
    options: DebugOptions = parse_flags("")
    set_option(options, name, text, "test")
    got = getattr(options, name)
    if value is None:
        assert "LIBRARY_FUSION_TYPE_ELTWISE" in got and "LIBRARY_FUSION_TYPE_REDUCE" not in got
        assert "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT" in got
    else:
        assert got == value


@pytest.mark.parametrize(
    "text, message",
    [
        ("--xla_gpu_shape_checks=ignore", "an enum: expected one of IGNORE, RUNTIME"),
        ("--xla_backend_optimization_level=3000000000", "does not fit into 32 bits"),
        ("--xla_cmd_buffer_trace_cache_size=99999999999999999999", "not fit into 64 bits"),
        ("--xla_gpu_enable_command_buffer=+fusion,cublas", "in front, or none"),
        ("--xla_gpu_enable_command_buffer=nonsense", "'nonsense' is none of"),
        ("--xla_fuel=fusion", "expected PASS=N"),
        ("--xla_fuel=fusion=-1", "expected PASS=N"),
        ("--xla_backend_optimization_level=1.5", "expected a decimal integer"),
        ("--xla_backend_optimization_level=9", "from -1 to 3"),
        ("--xla_backend_optimization_level=-7", "from -1 to 3"),
        ("--xla_cpu_parallel_codegen_split_count=1000000", "from 1 to 1024"),
        ("--xla_cpu_prefer_vector_width=-128", "from 1 to 65536"),
        ("--xla_dump_max_hlo_modules=-2", "from -1 to 2147483647"),
        ("--xla_force_host_platform_device_count=0", "from 1 to 4096"),
        ("--xla_force_host_platform_device_count=-1", "from 1 to 4096"),
        (
            "--xla_force_host_platform_device_count=99999999",
            "bad value '99999999' for --xla_force_host_platform_device_count (XLA_FLAGS), an int: "
            "it must be from 1 to 4096",
        ),
    ],
)
def test_bad_values(text: str, message: str) -> None:
    with pytest.raises(FlagError, match=re.escape(message).replace(r"\.\*", ".*")):
        parse_flags(text)


# -- the list ------------------------------------------------------------------------------------


def test_listing(capsys: pytest.CaptureFixture[str]) -> None:
    def names(*arguments: str) -> list[str]:
        assert flags.main(arguments) == 0
        return re.findall(r"^--(\w+)  ", capsys.readouterr().out, re.MULTILINE)

    everything = [name for name, _, _ in FLAGS]
    assert names() == names("--all") == everything
    assert set(names("--acting")) == ACTING
    assert set(names("--inert")) == set(everything) - ACTING
    assert names("xla_fuel", "--xla_dump_to") == ["xla_dump_to", "xla_fuel"]


def test_listing_shows_values(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(debug_options, "_current", parse_flags("--xla_fuel=a=1,b=2"))
    flags.main(["xla_fuel"])
    out = capsys.readouterr().out
    assert out.startswith('--xla_fuel  map, default "", now a=1,b=2  [acting]\n    PASS=N')
    flags.main(["xla_cpu_opt_preset"])
    assert "Values: CPU_OPT_PRESET_DEFAULT, " in capsys.readouterr().out


def test_listing_of_a_misspelt_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert flags.main(["xla_fule"]) == 1
    assert "no flag --xla_fule; did you mean --xla_fuel?" in capsys.readouterr().err
