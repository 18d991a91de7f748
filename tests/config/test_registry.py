"""The option registry: spellings, precedence, validation, threads, cache keys."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyjax._config import config, options, registry
from pyjax._config.kinds import Bool, Enum, Int
from pyjax._config.registry import (
    Affects,
    Option,
    Scope,
    Source,
    all_options,
    find,
    trace_context,
)

from tests.threads import together


@pytest.fixture
def restore() -> Iterator[None]:
    """Forget what a test set by config.update or flags."""
    yield
    for option in all_options().values():
        option.clear(Source.UPDATE)
        option.clear(Source.FLAG)


def run_python(code: str, *argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A program that imports the registry from its folder, which needs nothing else."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "PYJAX_"))}
    return subprocess.run(
        [sys.executable, "-c", code, *argv],
        cwd=Path(__file__).resolve().parents[2],
        env={**clean, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_all_options_are_declared_with_help() -> None:
    found = all_options()
    assert len(found) >= 104  # those that the reference has are not lost
    assert all(len(o.help) > 10 and o.help.endswith((".", "none.")) for o in found.values())


@pytest.mark.parametrize("spelling", ["jax_enable_x64", "pyjax_enable_x64", "enable_x64"])
def test_update_by_every_spelling(spelling: str, restore: None) -> None:
    config.update(spelling, True)
    assert config.jax_enable_x64 is True
    assert config.read("enable_x64") is True
    assert config.values["jax_enable_x64"] is True


def test_unknown_name_suggests() -> None:
    with pytest.raises(
        AttributeError, match=r"unrecognized config option.*Did you mean 'jax_enable_x64'"
    ):
        config.update("jax_enable_x46", True)
    with pytest.raises(AttributeError, match="unrecognized config option"):
        _ = config.jax_no_such_thing_at_all


@pytest.mark.parametrize(
    "name, value, message",
    [
        (
            "jax_enable_x64",
            "maybe",
            r"bad value 'maybe' for option jax_enable_x64 \(config.update.*boolean",
        ),
        ("jax_numpy_rank_promotion", "rais", "one of 'allow', 'warn', 'raise'"),
        ("jax_random_seed_offset", "x", "an integer"),
        ("jax_random_seed_offset", 1 << 70, "an integer of at most 64 bits"),
        ("jax_num_cpu_devices", 99_999_999, "an integer from -1 to 4096"),
        ("jax_num_cpu_devices", -5, "an integer from -1 to 4096"),
        ("jax_pgle_aggregation_percentile", 101, "an integer from 0 to 100"),
        ("jax_exec_time_optimization_effort", 7.5, "a number from -1 to 1"),
        ("jax_exec_time_optimization_effort", float("nan"), "a number from -1 to 1"),
        ("jax_persistent_cache_min_compile_time_secs", -1.0, "a number from 0 to inf"),
        ("jax_dump_ir_to", "/dev/null/below", "a directory that can be made and written"),
        ("jax_dump_ir_to", "/proc/nothing", "a directory that can be made and written"),
        ("jax_dump_ir_to", "nul\0character", "a directory that can be made and written"),
        ("jax_persistent_cache_min_compile_time_secs", "soon", "a number"),
    ],
)
def test_bad_values_name_option_value_source_and_choices(
    name: str, value: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        config.update(name, value)


@pytest.mark.parametrize("value", [3, "three", None, 1.5])
def test_bool_rejects_other_types(value: object) -> None:
    with pytest.raises((TypeError, ValueError), match="jax_disable_jit"):
        config.update("jax_disable_jit", value)


def test_precedence(restore: None) -> None:
    option = options.random_seed_offset
    option.set(1, Source.FLAG, "flag")
    assert option.value == 1
    config.update("jax_random_seed_offset", 2)
    assert option.value == 2
    with option(3):
        assert option.value == 3
        with option(4):
            assert option.value == 4
        assert option.value == 3
    option.clear(Source.UPDATE)
    assert option.value == 1
    option.clear(Source.FLAG)
    assert option.value == 0


def test_environment_then_flag_then_update() -> None:
    code = """
import sys
import time
from config import config
print(config.jax_random_seed_offset, config.explain("random_seed_offset"))
config.parse_flags_with_absl()
print(config.jax_random_seed_offset, config.explain("random_seed_offset"))
config.update("random_seed_offset", 7)
print(config.jax_random_seed_offset)
"""
    result = run_python(
        code,
        "--jax_random_seed_offset=6",
        "--unrelated=1",
        JAX_RANDOM_SEED_OFFSET="4",
        PYJAX_RANDOM_SEED_OFFSET="5",
    )
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert (
        lines[0].startswith("5 ") and "environment variable PYJAX_RANDOM_SEED_OFFSET=5" in lines[0]
    )
    assert lines[1].startswith("6 ") and "flag --jax_random_seed_offset=6" in lines[1]
    assert lines[2] == "7"


@pytest.mark.parametrize(
    "flag, expected",
    [
        ("--jax_disable_jit", "True"),
        ("--pyjax_disable_jit=true", "True"),
        ("--nojax_disable_jit", "False"),
    ],
)
def test_boolean_flag_spellings(flag: str, expected: str) -> None:
    code = "from config import config; config.parse_flags_with_absl(); print(config.disable_jit)"
    result = run_python(code, flag, PYJAX_DISABLE_JIT="0")
    assert result.stdout.strip() == expected, result.stderr


def test_bad_environment_value_is_an_error_at_import() -> None:
    result = run_python("import config", PYJAX_ENABLE_X64="perhaps")
    assert result.returncode != 0
    assert "environment variable PYJAX_ENABLE_X64=perhaps" in result.stderr


def test_bad_flag_value_names_the_flag() -> None:
    code = "from config import config; config.parse_flags_with_absl()"
    result = run_python(code, "--jax_numpy_rank_promotion=sometimes")
    assert result.returncode != 0
    assert "flag --jax_numpy_rank_promotion" in result.stderr


def test_an_option_is_not_its_value() -> None:
    with pytest.raises(TypeError, match=r"write enable_x64.value"):
        bool(options.enable_x64)


def test_attributes_cannot_be_assigned() -> None:
    with pytest.raises(AttributeError, match=r"config.update\('jax_enable_x64'"):
        config.jax_enable_x64 = True


def test_setting_an_option_without_effect_warns_once() -> None:
    option = Option(
        "jax_probe", Bool(), False, Affects.NOTHING, Scope.GLOBAL, "Probe.", "of this test"
    )
    with pytest.warns(UserWarning, match=r"jax_probe is set but has no effect: of this test"):
        option.set(True, Source.UPDATE, "test")
    option.set(False, Source.UPDATE, "test")
    option.set(True, Source.UPDATE, "test")  # warnings are errors: a second one would fail


def test_context_managers_hold_for_one_thread() -> None:
    with options.enable_x64(True):
        assert together(lambda: options.enable_x64.value) == [False]
        assert options.enable_x64.value is True
    assert options.enable_x64.value is False


def test_global_options_have_no_context_manager() -> None:
    with pytest.raises(TypeError, match="holds for the whole process"):
        with options.num_cpu_devices(2):
            pass


def test_cache_key_follows_options_that_affect_tracing(restore: None) -> None:
    before = trace_context()
    with options.enable_x64(True):
        inside = trace_context()
        assert inside != before
    assert trace_context() == before
    with options.log_compiles(True):  # affects nothing
        assert trace_context() == before
    config.update("jax_debug_nans", True)
    assert trace_context() != before


def test_cache_key_has_every_keyed_option() -> None:
    keyed = [o for o in all_options().values() if o.affects is not Affects.NOTHING]
    acting = [o for o in keyed if o.acts]
    in_keys = [o for o in registry._keyed if o in all_options().values()]  # the rest is unlisted
    assert in_keys == acting
    assert len(trace_context().values) == len(registry._keyed) + 1  # and the compile environment


def test_options_as_they_were(restore: None) -> None:
    """Of blocks that have ended, and of the process."""
    config.update("jax_threefry_partitionable", True)
    with options.enable_x64(True):
        before = registry.trace_context()
    config.update("jax_threefry_partitionable", False)
    config.update("jax_enable_checks", True)

    def now() -> tuple[bool, bool, bool]:
        group = (options.threefry_partitionable, options.enable_x64, options.enable_checks)
        return tuple(option.value for option in group)  # type: ignore[return-value]

    assert registry.under_key(before, now) == (True, True, False)
    assert now() == (False, False, True)


def test_locked_options_refuse_changes() -> None:
    option = Option("jax_probe2", Int(), 0, Affects.NOTHING, Scope.GLOBAL, "Probe.", None)
    option.lock("the probe has started.")
    with pytest.raises(RuntimeError, match=r"the probe has started.*PYJAX_PROBE2"):
        option.set(1, Source.UPDATE, "test")
    option.lock(None)
    option.set(1, Source.UPDATE, "test")
    assert option.value == 1


def test_listeners_hear_changes() -> None:
    option = Option(
        "jax_probe3", Enum(("a", "b")), "a", Affects.NOTHING, Scope.GLOBAL, "Probe.", None
    )
    heard: list[str] = []
    option.on_change(heard.append)
    option.set("b", Source.UPDATE, "test")
    option.clear(Source.UPDATE)
    assert heard == ["a", "b", "a"]


def test_explain_names_every_changed_option(restore: None) -> None:
    def explained() -> list[str]:  # how the suite runs
        lines = config.explain().splitlines()
        others = ("jax_first_code", "jax_native_dispatch")
        return [x for x in lines if not x.startswith(others)]

    assert explained() in (["every option is at its default"], [])
    config.update("jax_log_compiles", True)
    assert explained() == ["jax_log_compiles = True (config.update('jax_log_compiles', True))"]


def test_find_accepts_names_without_prefix() -> None:
    assert (
        find("jax_check_vma" if "jax_check_vma" in all_options() else "check_vma").name
        == "check_vma"
    )
    assert find("pyjax_mock_num_gpu_processes").name == "mock_num_gpu_processes"


def test_keys_of_values_that_are_hashed_by_byte_code() -> None:
    """Threads that took out the key of nothing, while another one was at it, got a KeyError."""

    class Value:
        def __hash__(self) -> int:
            time.sleep(0)  # lets others go on
            return 1

        def __eq__(self, other: object) -> bool:
            return type(other) is Value

    def work() -> None:
        for _ in range(200):
            key = registry._intern((Value(),))
            assert registry._intern((Value(),)).values == key.values
            del key

    together(*[work] * 6)
