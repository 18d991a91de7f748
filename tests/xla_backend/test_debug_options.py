"""XLA_FLAGS: what parses, and what each mistake says."""

from __future__ import annotations

from pathlib import Path

import pytest

from xla_backend.debug_options import FlagError, parse_flags, set_option
from xla_backend.flag_effects import ACTING
from xla_backend.xla_flag_table import FLAGS


def test_table_is_complete_and_acting_flags_exist() -> None:
    names = [name for name, _, _ in FLAGS]
    assert len(names) == len(set(names)) == 309
    assert set(names) >= ACTING


def test_defaults_have_their_type() -> None:
    expected = {"bool": bool, "int": int, "float": (int, float), "string": str, "enum": str}
    for name, kind, default in FLAGS:
        assert isinstance(default, expected.get(kind, tuple)), name


@pytest.mark.parametrize(
    "text, name, value",
    [
        ("", "xla_dump_to", ""),
        ("--xla_dump_to=out", "xla_dump_to", "out"),
        ("--xla_dump_hlo_as_text", "xla_dump_hlo_as_text", True),
        ("--xla_dump_hlo_as_text=FALSE", "xla_dump_hlo_as_text", False),
        ("--xla_dump_hlo_as_text=1", "xla_dump_hlo_as_text", True),
        ("--xla_force_host_platform_device_count=8", "xla_force_host_platform_device_count", 8),
        ("--xla_dump_hlo_pass_re='a b'", "xla_dump_hlo_pass_re", "a b"),
        (r'--xla_dump_hlo_pass_re="a\"b"', "xla_dump_hlo_pass_re", 'a"b'),
        ("--xla_dump_to=a\n\t--xla_dump_to=b", "xla_dump_to", "b"),
        (
            "--xla_disable_hlo_passes=a,b --xla_disable_hlo_passes=c",
            "xla_disable_hlo_passes",
            ("a", "b", "c"),
        ),
        (
            "--xla_backend_extra_options=k=v,k2,k3=a=b",
            "xla_backend_extra_options",
            (("k", "v"), ("k2", ""), ("k3", "a=b")),
        ),
    ],
)
def test_accepted(text: str, name: str, value: object) -> None:
    assert getattr(parse_flags(text), name) == value


@pytest.mark.parametrize(
    "text, message",
    [
        (
            "--xla_dump_too=x",
            r"unknown flag in XLA_FLAGS: --xla_dump_too; did you mean --xla_dump_to\?",
        ),
        ("--aaa --bbb=1", "unknown flags in XLA_FLAGS: --aaa, --bbb"),
        ("--xla_dump_to", "--xla_dump_to in XLA_FLAGS needs a value"),
        (
            "--xla_dump_hlo_as_text=yes",
            "bad value 'yes' for --xla_dump_hlo_as_text.*expected true, false",
        ),
        ("--xla_force_host_platform_device_count=0x8", "bad value '0x8'.*an int"),
        ("--xla_dump_to=a stray", "cannot parse 'stray'"),
        ("-xla_dump_to=a", "cannot parse '-xla_dump_to=a'"),
    ],
)
def test_mistakes(text: str, message: str) -> None:
    with pytest.raises(FlagError, match=message):
        parse_flags(text)


def test_flags_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "flags.txt"
    path.write_text("--xla_dump_to=here\n--xla_dump_large_constants\n")
    options = parse_flags(str(path))
    assert options.xla_dump_to == "here" and options.xla_dump_large_constants
    with pytest.raises(FileNotFoundError):
        parse_flags(str(tmp_path / "missing"))


def test_python_values_and_unknown_compile_options() -> None:
    options = parse_flags("")
    set_option(options, "xla_dump_large_constants", True, "test")
    assert options.xla_dump_large_constants is True
    with pytest.raises(FlagError, match="no such compile option 'xla_dmp_to'"):
        set_option(options, "xla_dmp_to", "x", "test")
    with pytest.raises(AttributeError, match="no flag 'xla_dump_two'"):
        _ = options.xla_dump_two
