"""Dumps: which files each combination of flags writes, and what is in them."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
import xla_backend
from xla_backend.compile_options import CompileOptions
from xla_backend.debug_options import FlagError, parse_flags
from xla_backend.dump import dumper as dumper_module
from xla_backend.dump import run_recorder
from xla_backend.dump.buffer_reports import readable_bytes
from xla_backend.dump.text_format import flag_lines
from xla_backend.dump.usage_proto import USAGE_SCHEMA
from xla_backend.flag_effects import with_flags
from xla_backend.hlo.errors import HloError
from xla_backend.hlo.literal import Literal
from xla_backend.hlo.printer import module_to_text
from xla_backend.hlo.proto import (
    ProtoError,
    hlo_proto_from_bytes,
    snapshot_from_proto,
    unoptimized_snapshot_from_proto,
)

TEXT = """HloModule jit_f

region {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY main {
  x = f32[4,8] parameter(0), metadata={op_name="x"}
  y = f32[8,4] parameter(1), metadata={op_name="y"}
  d = f32[4,4] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(f)/dot"}
  t = f32[4,4] tanh(d), metadata={op_name="jit(f)/tanh" source_file="user.py" source_line=7}
  two = f32[] constant(2)
  twos = f32[4,4] broadcast(two), dimensions={}
  m = f32[4,4] multiply(t, twos), metadata={op_name="jit(f)/mul"}
  zero = f32[] constant(0)
  ROOT r = f32[4] reduce(m, zero), dimensions={0}, to_apply=region, metadata={op_name="jit(f)/sum"}
}
"""  # noqa: E501

INPUTS = {
    "jit_f/compile_options.textproto",
    "jit_f/module.mlir",
    "jit_f/topology.textproto",
}
CODE = {
    "jit_f.KERNEL.loop-ir.txt",
    "jit_f.obj-file.part_00.o",
    "jit_f.part_00.ir-no-opt.ll",
    "jit_f.part_00.ir-with-opt.ll",
    "jit_f.debug_options",
}
STAGES = {"jit_f.before_optimizations.txt", "jit_f.cpu_after_optimizations.txt"}
REPORTS = {
    "jit_f.cpu_after_optimizations-buffer-assignment.txt",
    "jit_f.cpu_after_optimizations-memory-usage-report.txt",
}
ANALYSIS = {
    "jit_f.cpu_after_optimizations-buffer-assignment-values.txt",
    "jit_f.cpu_after_optimizations-live-range.txt",
}
TEXTS = STAGES | REPORTS | ANALYSIS
ALL = INPUTS | CODE | TEXTS


def compile_with(*flags: str, text: str = TEXT) -> xla_backend.Executable:
    options = with_flags(CompileOptions(), parse_flags(" ".join(flags)))
    return xla_backend.compile(xla_backend.parse_hlo(text), options=options)


def files(folder: Path) -> set[str]:
    """Paths below a folder without module numbers, kernels under one name."""
    names = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    names = {re.sub(r"module_\d{4}\.", "", name) for name in names}
    return {re.sub(r"jit_f\.\w+\.loop-ir", "jit_f.KERNEL.loop-ir", name) for name in names}


def formatted(suffix: str) -> set[str]:
    return {f"jit_f.{stage}.{suffix}" for stage in ("before_optimizations", _FINAL)}


_FINAL = "cpu_after_optimizations"
USAGE = f"jit_f.{_FINAL}-memory-usage-report.pb"
TOP = {f"jit_f.{_FINAL}.top_level.html"}

TABLE = [
    ("", ALL),
    ("--xla_dump_hlo_as_text", ALL),
    ("--xla_dump_hlo_as_text=false", ALL),
    ("--xla_dump_hlo_as_dot", INPUTS | CODE | formatted("dot")),
    ("--xla_dump_hlo_as_proto", INPUTS | CODE | formatted("hlo.pb") | {USAGE}),
    (
        "--xla_dump_hlo_as_proto --xla_dump_compress_protos",
        INPUTS | CODE | formatted("hlo.pb.gz") | {f"{USAGE}.gz"},
    ),
    ("--xla_dump_hlo_as_proto --xla_dump_hlo_as_text", ALL | formatted("hlo.pb") | {USAGE}),
    ("--xla_dump_compress_protos", ALL),
    ("--xla_dump_hlo_snapshots", INPUTS | CODE),
    ("--xla_dump_hlo_snapshots --xla_dump_hlo_as_text", ALL),
    ("--xla_dump_hlo_unoptimized_snapshots --xla_dump_hlo_as_text", INPUTS),
    ("--xla_dump_hlo_as_html", INPUTS | CODE | formatted("html") | TOP),
    ("--xla_dump_hlo_as_url", INPUTS | CODE | formatted("url")),
    ("--xla_dump_hlo_as_dot --xla_dump_hlo_as_text", ALL | formatted("dot")),
    ("--xla_dump_buffer_assignment_analysis=false", ALL - ANALYSIS),
    ("--xla_dump_hlo_module_re=other", INPUTS),
    ("--xla_dump_hlo_module_re=f$", ALL),
    ("--xla_dump_hlo_pipeline_re=cpu", ALL),
    ("--xla_dump_fusion_visualization", ALL | {"main.jit_f._fusion.html"}),
    ("--xla_dump_module_metadata", ALL | {"metadata.textproto"}),
    (
        "--xla_dump_hlo_pass_re=^scheduler$",
        ALL
        | {
            "jit_f.0000.cpu.after_dce.before_scheduler.txt",
            "jit_f.0001.cpu.after_scheduler.before_while-double-buffering.txt",
        },
    ),
    (
        "--xla_dump_hlo_pass_re=^cse$ --xla_dump_hlo_pipeline_re=^simplification$ "
        "--xla_dump_hlo_as_dot",
        INPUTS
        | CODE
        | formatted("dot")
        | {
            "jit_f.0000.simplification.after_tuple-simplifier.before_cse.dot",
            "jit_f.0001.simplification.after_cse.before_dce.dot",
        },
    ),
    ("--xla_dump_hlo_pass_re=cse --xla_dump_hlo_pipeline_re=nothing", ALL),
]


@pytest.mark.parametrize("flags, expected", TABLE, ids=[flags or "plain" for flags, _ in TABLE])
def test_files(flags: str, expected: set[str], tmp_path: Path) -> None:
    compile_with(f"--xla_dump_to={tmp_path}", flags)
    got = files(tmp_path)
    passes = {name for name in got | expected if re.match(r"jit_f\.\d{4}\.", name)}
    assert got - passes == expected - passes
    # Passes may come and go; what is asked for is between its neighbours, numbered from zero.
    asked = re.search(r"hlo_pass_re=\^([\w-]+)\$", flags)
    assert bool(passes & got) == bool(expected & passes)
    for name in passes & got:
        assert asked and re.search(rf"(after|before)_{asked[1]}\.", name), name


def test_filters_alone_write_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    compile_with("--xla_dump_hlo_pass_re=.* --xla_dump_hlo_module_re=f")
    assert not list(tmp_path.iterdir()) and capsys.readouterr() == ("", "")


@pytest.mark.parametrize("flags", ["--xla_dump_to=-", "--xla_dump_hlo_as_text"])
def test_stdout_has_banners(
    flags: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    compile_with(flags, "--xla_dump_hlo_pass_re=^cse$")
    out, err = capsys.readouterr()
    begins = re.findall(r"^\*\*\* Begin module_\d{4}\.(.*) \*\*\*$", out, re.MULTILINE)
    assert begins == re.findall(r"^\*\*\* End module_\d{4}\.(.*) \*\*\*$", out, re.MULTILINE)
    assert begins[0] == "jit_f.before_optimizations.txt"
    assert set(begins) >= TEXTS and "jit_f.part_00.ir-no-opt.ll" in begins
    refused = re.findall(r"Refusing to write module_\d{4}\.(\S+) to stdout\. Pass", err)
    assert refused == ["jit_f.debug_options", "jit_f.obj-file.part_00.o"]
    assert not list(tmp_path.iterdir())


def test_drawings_do_not_go_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    compile_with("--xla_dump_hlo_as_dot", "--xla_dump_hlo_as_html")
    out, err = capsys.readouterr()
    assert "digraph" not in out and "<svg" not in out and ".ir-no-opt.ll ***" in out
    assert err.count("Refusing to write") == 7


def test_protos_do_not_go_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    executable = compile_with("--xla_dump_hlo_as_proto", "--xla_dump_hlo_snapshots")
    executable.execute(run_arguments())
    out, err = capsys.readouterr()
    assert ".ir-no-opt.ll ***" in out and ".txt ***" not in out.replace(".loop-ir.txt", "")
    refused = re.findall(r"Refusing to write module_\d{4}\.(\S+) to stdout\. Pass", err)
    assert {USAGE, "jit_f.snapshot.0.pb", *formatted("hlo.pb")} < set(refused)


def test_url_says_that_there_is_no_renderer(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    compile_with(f"--xla_dump_to={tmp_path} --xla_dump_hlo_as_url")
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(
        r"module_\d{4}\.jit_f\.before_optimizations --> Error rendering graph: UNAVAILABLE: "
        r"Can't render as URL; no URL renderer was registered\.",
        lines[0],
    )
    assert len(lines) == 2


def test_sponge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEST_UNDECLARED_OUTPUTS_DIR", raising=False)
    with pytest.raises(HloError, match="TEST_UNDECLARED_OUTPUTS_DIR, which is not set"):
        compile_with("--xla_dump_to=sponge")
    monkeypatch.setenv("TEST_UNDECLARED_OUTPUTS_DIR", str(tmp_path))
    compile_with("--xla_dump_to=sponge")
    assert files(tmp_path) == ALL


def test_timestamps_and_subfolders(tmp_path: Path) -> None:
    compile_with(
        f"--xla_dump_to={tmp_path} --xla_dump_include_timestamp --xla_dump_hlo_to_subfolder"
    )
    (folder,) = (tmp_path / "jit_f").iterdir()
    assert re.fullmatch(r".+_\d+", folder.name)
    for path in folder.iterdir():
        hlo = "_optimizations" in path.name
        assert bool(re.match(r"\d{16}\.module_\d{4}\.", path.name)) == hlo, path.name


def test_directories_and_names(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "with parents"
    module = xla_backend.parse_hlo(TEXT)
    module.name = "jit_<lambda>"
    options = with_flags(CompileOptions(), parse_flags(f'--xla_dump_to="{folder}"'))
    for _ in range(2):
        xla_backend.compile(module, options=options)
    names = [re.match(r"module_(\d{4})\.jit__lambda_", p.name) for p in folder.iterdir()]
    assert all(names)
    first, second = sorted({int(found[1]) for found in names if found})
    assert first % 2 == 0 and second == first + 2


@pytest.mark.parametrize(
    "limit, expected",
    [(0, INPUTS), (1, INPUTS | {"jit_f.before_optimizations.txt"}), (2, ALL)],
)
def test_at_most_so_many_modules(
    limit: int,
    expected: set[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(dumper_module, "_dumped_modules", 0)
    compile_with(f"--xla_dump_to={tmp_path} --xla_dump_max_hlo_modules={limit}")
    assert files(tmp_path) == expected
    told = f"Have already dumped {limit} modules, more than the limit of {limit}"
    assert (told in capsys.readouterr().err) == (limit < 2)


def read(folder: Path, suffix: str) -> str:
    (path,) = folder.glob(f"module_*.{suffix}")
    return path.read_text(encoding="utf-8")


def test_text_styles(tmp_path: Path) -> None:
    compile_with(f"--xla_dump_to={tmp_path}/long")
    compile_with(
        f"--xla_dump_to={tmp_path}/short --xla_dump_hlo_as_long_text=false "
        "--xla_dump_disable_metadata"
    )
    long = read(tmp_path / "long", "before_optimizations.txt")
    short = read(tmp_path / "short", "before_optimizations.txt")
    assert "%t = f32[4,4]{1,0} tanh(%d)" in long and "op_name" in long
    assert "t = f32[4,4]{1,0} tanh(d)" in short and "op_name" not in short and "%" not in short
    for text in (long, short, read(tmp_path / "long", f"{_FINAL}.txt")):
        assert xla_backend.parse_hlo(text).name == "jit_f"


def test_buffer_reports(tmp_path: Path) -> None:
    compile_with(f"--xla_dump_to={tmp_path}")
    text = read(tmp_path, f"{_FINAL}-buffer-assignment.txt")
    assert text.startswith(
        "BufferAssignment:\n"
        "allocation 0: size 128, parameter 0, shape |f32[4,8]| at ShapeIndex {}:\n"
        " value: <0 x @0> (size=128,offset=0): f32[4,8]{1,0}\n"
    )
    assert "size 16, output shape is |f32[4]|, maybe-live-out:" in text
    sizes = [int(n) for n in re.findall(r"^allocation \d+: size (\d+)", text, re.MULTILINE)]
    values = read(tmp_path, f"{_FINAL}-buffer-assignment-values.txt")
    assert f"Total bytes used: {sum(sizes)} ({sum(sizes)}B)" in values
    assert "<0 x @0>\n positions:\n  x\n uses:\n" in values
    assert ' from instruction: %x = f32[4,8]{1,0} parameter(0), metadata={op_name="x"}' in values
    usage = read(tmp_path, f"{_FINAL}-memory-usage-report.txt")
    assert "       128B(100%);       128B;            0;                1; f32[4,8]" in usage


def test_memory_usage_as_proto(tmp_path: Path) -> None:
    compile_with(f"--xla_dump_to={tmp_path} --xla_dump_hlo_as_proto --xla_dump_hlo_as_text")
    (path,) = tmp_path.glob(f"*.{USAGE}")
    report = USAGE_SCHEMA.decode("MemoryUsageReportProto", path.read_bytes())
    (space,) = report["memory_space_allocation_entries"]
    entries = space["allocation_entries"]
    sizes = [entry["size"] for entry in entries]
    assert sizes == sorted(sizes, reverse=True) and sum(sizes) == space["total_bytes"]
    assert entries[-1]["cumulative_size"] == space["total_bytes"]
    assert entries[-1]["cumulative_percentage"] == 1
    assert entries[0]["defining_positions"] == ["x"] and "f32[4,8]" in entries[0]["hlo_text"]
    text = read(tmp_path, f"{_FINAL}-memory-usage-report.txt")
    for entry in entries:
        assert entry["hlo_text"] in text


LOOP = """HloModule jit_f

cond {
  t = (s32[], f32[256]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(5)
  ROOT c = pred[] compare(i, n), direction=LT
}

body {
  t = (s32[], f32[256]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[256] get-tuple-element(t), index=1
  r = f32[256] reverse(x), dimensions={0}
  y = f32[256] sine(r), metadata={op_name="jit(f)/while/body/sin"}
  ROOT out = (s32[], f32[256]) tuple(next, y)
}

ENTRY main {
  p = f32[256] parameter(0), metadata={op_name="p"}
  zero = s32[] constant(0)
  t = (s32[], f32[256]) tuple(zero, p)
  w = (s32[], f32[256]) while(t), condition=cond, body=body, metadata={op_name="jit(f)/while"}
  ROOT g = f32[256] get-tuple-element(w), index=1
}
"""


def test_live_ranges_of_a_loop(tmp_path: Path) -> None:
    compile_with(f"--xla_dump_to={tmp_path}", text=LOOP)
    text = read(tmp_path, f"{_FINAL}-live-range.txt")
    end = int(re.match(r"HloLiveRange \(max (\d+)\):", text)[1])  # type: ignore[index]
    spans = re.findall(r"^    ([\w.-]+)\{\d*\}:(\d+)-(\d+)", text, re.MULTILINE)
    assert spans and all(0 <= int(a) <= int(b) <= end for _, a, b in spans)
    peak = re.findall(r"\{\d*\}: (\d+) bytes \(cumulative: (\d+) bytes\)", text)
    assert sum(int(size) for size, _ in peak) == int(peak[-1][1]) >= 2048
    assert "    main (100.0%, total: " in text
    assert re.search(r"└── .*remaining: 0 bytes\)\n\Z", text)
    assert "jit(f)/while" in text


def test_drawings(tmp_path: Path) -> None:
    compile_with(
        f"--xla_dump_to={tmp_path} --xla_dump_hlo_as_dot --xla_dump_hlo_as_html "
        "--xla_dump_fusion_visualization"
    )
    dot = read(tmp_path, "before_optimizations.dot")
    assert dot.startswith("digraph G {") and "Computation main<br/>ENTRY computation" in dot
    (tanh,) = re.findall(r"^(\d+) \[label=<<b>t</b>", dot, re.MULTILINE)
    (product,) = re.findall(r"^(\d+) \[label=<<b>m</b>", dot, re.MULTILINE)
    assert f'{tanh} -> {product} [label="0"];' in dot
    assert "operand 1 = f32[4,4] 2" in dot and "Subcomputation: add" in dot
    assert "user.py:7" in dot
    assert "subgraph cluster_" in read(tmp_path, f"{_FINAL}.dot")
    page = read(tmp_path, f"{_FINAL}.html")
    top = read(tmp_path, f"{_FINAL}.top_level.html")
    assert page.count("<svg") > top.count("<svg") == 1
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")  # self-contained
    (frames,) = tmp_path.glob("main.module_*._fusion.html")
    assert frames.read_text().count('class="frame"') >= 2


STOCHASTIC = """ENTRY e {
  p = f32[4] parameter(0)
  q = u32[4] parameter(1)
  ROOT r = s8[4] stochastic-convert(p, q)
}"""


def test_the_program_as_stablehlo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compile_with(f"--xla_dump_to={tmp_path}/there")
    (path,) = (tmp_path / "there").glob("module_*/module.mlir")
    assert "stablehlo.dot_general" in path.read_text()
    assert xla_backend.parse_stablehlo(path.read_text()).name == "jit_f"
    compile_with(f"--xla_dump_to={tmp_path}/generic --xla_dump_enable_mlir_pretty_form=false")
    (path,) = (tmp_path / "generic").glob("module_*/module.mlir")
    assert '"stablehlo.tanh"(' in path.read_text()
    compile_with(f"--xla_dump_to={tmp_path}/without", text=STOCHASTIC)
    assert not list((tmp_path / "without").glob("module_*/module.mlir"))
    assert re.search(
        r"No module.mlir for module_\d{4}\.module_e: .*stochastic-convert", capsys.readouterr().err
    )


def test_large_constants(tmp_path: Path) -> None:
    numbers = ", ".join(map(str, range(1, 21)))
    text = f"ENTRY e {{ ROOT c = s32[20] constant({{{numbers}}}) }}"
    compile_with(f"--xla_dump_to={tmp_path}/short", text=text)
    compile_with(f"--xla_dump_to={tmp_path}/long --xla_dump_large_constants", text=text)
    assert "constant({...})" in read(tmp_path / "short", "before_optimizations.txt")
    assert numbers in read(tmp_path / "long", "before_optimizations.txt")


def test_addresses_and_colors_of_drawings(tmp_path: Path) -> None:
    text = TEXT.replace("tanh(d),", "tanh(d), sharding={replicated},")

    def drawn(*flags: str) -> str:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        compile_with(f"--xla_dump_to={folder} --xla_dump_hlo_as_dot", *flags, text=text)
        return read(folder, "before_optimizations.dot")

    assert not re.search(r"\[0x[0-9a-f]+\]", drawn())
    assert re.search(r"<b>t</b><br/>tanh<br/>\[0x[0-9a-f]+\]", drawn("--xla_hlo_graph_addresses"))
    colored = drawn("--xla_hlo_graph_sharding_color")
    assert "sharding={replicated}" in colored
    fills = set(re.findall(r'fillcolor="(#\w+)"', colored))
    assert len(fills) == 2 and "#ffffff" in fills  # one sharding, and none


def test_options_and_metadata(tmp_path: Path) -> None:
    compile_with(f"--xla_dump_to={tmp_path} --xla_dump_module_metadata --xla_fuel=cse=7")
    assert read(tmp_path, "debug_options").splitlines() == [
        "xla_dump_module_metadata: true",
        f'xla_dump_to: "{tmp_path}"',
        "xla_fuel {",
        '  key: "cse"',
        "  value: 7",
        "}",
    ]
    (folder,) = (p for p in tmp_path.iterdir() if p.is_dir())
    options = (folder / "compile_options.textproto").read_text()
    assert "    xla_dump_module_metadata: true\n" in options
    assert "    xla_backend_optimization_level: 3\n" in options
    assert 'platform_name: "cpu"' in (folder / "topology.textproto").read_text()
    (path,) = tmp_path.glob("module_*.metadata.textproto")
    metadata = path.read_text()
    assert 'pass_name: "fusion"' in metadata and "module_changed: true" in metadata


def test_code_of_a_unit_and_of_kernels(tmp_path: Path) -> None:
    executable = compile_with(f"--xla_dump_to={tmp_path} --xla_dump_emitter_re=.")
    assert "define i32 @entry" in read(tmp_path, "part_00.ir-no-opt.ll")
    assert "target triple" in read(tmp_path, "part_00.ir-with-opt.ll")
    (path,) = tmp_path.glob("*.obj-file.part_00.o")
    assert path.read_bytes()[:4] == b"\x7fELF"
    for kernel in executable.kernels():
        assert read(tmp_path, f"{kernel.name}.loop-ir.txt").strip() == kernel.loop_ir.strip()
        assert "define" in read(tmp_path, f"{kernel.name}.ll")
        assert read(tmp_path, f"{kernel.name}.s").strip() == kernel.assembly.strip()


def test_dumping_changes_no_result(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in ((4, 8), (8, 4))]
    plain = compile_with("").execute(arrays)
    dumped = compile_with(f"--xla_dump_to={tmp_path} --xla_dump_hlo_pass_re=.+").execute(arrays)
    np.testing.assert_array_equal(plain[0], dumped[0])


def run_arguments() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(s).astype(np.float32) for s in ((4, 8), (8, 4))]


def test_protos_hold_the_stages(tmp_path: Path) -> None:
    executable = compile_with(f"--xla_dump_to={tmp_path} --xla_dump_hlo_as_proto")
    (before,) = tmp_path.glob("*.before_optimizations.hlo.pb")
    (after,) = tmp_path.glob(f"*.{_FINAL}.hlo.pb")
    received = hlo_proto_from_bytes(before.read_bytes())
    assert module_to_text(received) == module_to_text(xla_backend.parse_hlo(TEXT))
    compiled = hlo_proto_from_bytes(after.read_bytes())
    assert compiled.is_scheduled
    assert module_to_text(compiled) == module_to_text(executable.module)
    compile_with(f"--xla_dump_to={tmp_path}/gz --xla_dump_hlo_as_proto --xla_dump_compress_protos")
    (packed,) = tmp_path.glob("gz/*.before_optimizations.hlo.pb.gz")
    assert gzip.decompress(packed.read_bytes()) == before.read_bytes()


def test_snapshots_of_runs(tmp_path: Path) -> None:
    executable = compile_with(f"--xla_dump_to={tmp_path} --xla_dump_hlo_snapshots")
    arrays = run_arguments()
    (want,) = compile_with("").execute(arrays)
    for _ in range(2):
        np.testing.assert_array_equal(executable.execute(arrays)[0], want)
    names = sorted(p.name for p in tmp_path.glob("*snapshot*"))
    assert [name.split("jit_f.")[1] for name in names] == ["snapshot.0.pb", "snapshot.1.pb"]
    snapshot = snapshot_from_proto((tmp_path / names[1]).read_bytes())
    assert snapshot.arguments == tuple(Literal(a) for a in arrays)
    assert snapshot.result == Literal(want)
    assert module_to_text(snapshot.module) == module_to_text(executable.module)


def test_unoptimized_snapshots_of_runs(tmp_path: Path) -> None:
    flags = "--xla_dump_hlo_unoptimized_snapshots --xla_dump_hlo_snapshots"
    executable = compile_with(f"--xla_dump_to={tmp_path}", flags, "--xla_dump_hlo_module_re=other")
    arrays = run_arguments()
    for _ in range(2):
        executable.execute(arrays)
    runs = [f"jit_f.execution_{i:04d}.hlo_unoptimized_snapshot.pb" for i in range(2)]
    assert files(tmp_path) == INPUTS | set(runs)
    (path,) = tmp_path.glob(f"*.{runs[0]}")
    module, partitions = unoptimized_snapshot_from_proto(path.read_bytes())
    assert module_to_text(module) == module_to_text(xla_backend.parse_hlo(TEXT))
    assert partitions == [tuple(Literal(a) for a in arrays)]


NESTED = """HloModule jit_f, input_output_alias={ {1}: (1, {}, must-alias) }

ENTRY main {
  t = (f32[3], (pred[2], bf16[])) parameter(0)
  x = f32[4] parameter(1)
  y = f32[4] negate(x)
  g = f32[3] get-tuple-element(t), index=0
  n = (pred[2], bf16[]) get-tuple-element(t), index=1
  ROOT r = (f32[3], f32[4], (pred[2], bf16[])) tuple(g, y, n)
}
"""


def test_snapshots_of_tuples_and_donated_arguments(tmp_path: Path) -> None:
    x = np.arange(4, dtype=np.float32)
    members = [np.ones(3, np.float32), np.array([True, False]), np.array(2, ml_dtypes.bfloat16)]
    executable = compile_with(f"--xla_dump_to={tmp_path} --xla_dump_hlo_snapshots", text=NESTED)
    executable.execute([*members, x])
    (path,) = tmp_path.glob("*.snapshot.0.pb")
    snapshot = snapshot_from_proto(path.read_bytes())
    a, b, c = map(Literal, members)
    nested = Literal.tuple([b, c])
    assert snapshot.arguments == (Literal.tuple([a, nested]), Literal(x))
    assert snapshot.result == Literal.tuple([a, Literal(-x), nested])


def test_what_protobuf_cannot_say_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*arguments: object) -> bytes:
        raise ProtoError("no form for this")

    monkeypatch.setattr(dumper_module, "hlo_proto_to_bytes", refuse)
    monkeypatch.setattr(run_recorder, "snapshot_to_proto", refuse)
    flags = "--xla_dump_hlo_as_proto --xla_dump_hlo_snapshots"
    compile_with(f"--xla_dump_to={tmp_path}", flags).execute(run_arguments())
    assert files(tmp_path) == INPUTS | CODE | {USAGE}
    err = capsys.readouterr().err
    assert re.search(r"No proto for module_\d+\.jit_f\.before_opt.*: no form for this", err)
    assert re.search(r"No snapshot\.0\.pb for module_\d+\.jit_f: no form for this", err)


def test_snapshots_of_jit(tmp_path: Path) -> None:
    flags = {"xla_dump_to": str(tmp_path), "xla_dump_hlo_snapshots": True}
    f = pyjax.jit(lambda x: jnp.sin(x) * 2, donate_argnums=0, compiler_options=flags)
    x = np.arange(5, dtype=np.float32)
    for _ in range(2):
        donated = jnp.array(x)
        result = np.asarray(f(donated))
        assert donated.is_deleted()
    paths = sorted(tmp_path.glob("module_*.snapshot.*.pb"))
    assert len(paths) == 2
    snapshot = snapshot_from_proto(paths[1].read_bytes())
    assert snapshot.arguments == (Literal(x),)
    assert [leaf.array.tolist() for leaf in snapshot.result.leaves()] == [result.tolist()]


def test_only_programs_that_somebody_records_lose_their_fast_way_in(tmp_path: Path) -> None:
    assert compile_with("").loaded.direct is not None
    dumped = compile_with(f"--xla_dump_to={tmp_path} --xla_dump_hlo_snapshots")
    assert dumped.loaded.direct is None


def test_all_passes_and_changed_passes(tmp_path: Path) -> None:
    compile_with(f"--xla_dump_to={tmp_path}/all --xla_dump_hlo_pass_re=.+")
    compile_with(f"--xla_dump_to={tmp_path}/changed --xla_dump_hlo_pass_re=.*")

    def passes(folder: str) -> list[str]:
        names = sorted(files(tmp_path / folder))
        return [n for n in names if re.match(r"jit_f\.\d{4}\.", n)]

    everything, changed = passes("all"), passes("changed")
    assert len(changed) < len(everything)
    for names in (everything, changed):
        assert [int(n.split(".")[1]) for n in names] == list(range(len(names)))
    assert everything[0].startswith("jit_f.0000.cpu.after_pipeline-start.before_")
    assert everything[-1].endswith(".before_pipeline-end.txt")


@pytest.mark.parametrize(
    "size, text", [(348, "348B"), (1987, "1.9KiB"), (3 << 20, "3.0MiB"), (5 << 40, "5.0TiB")]
)
def test_readable_bytes(size: int, text: str) -> None:
    assert readable_bytes(size) == text


def test_text_format() -> None:
    flags = parse_flags('--xla_disable_hlo_passes=a,b --xla_dump_to="x\\"y" --xla_fuel=c=1')
    lines = flag_lines(
        (n, getattr(flags, n)) for n in ("xla_disable_hlo_passes", "xla_dump_to", "xla_fuel")
    )
    assert lines[:3] == [
        'xla_disable_hlo_passes: "a"',
        'xla_disable_hlo_passes: "b"',
        'xla_dump_to: "x\\"y"',
    ]


@pytest.mark.parametrize("target", ["/dev/null/below", "/proc/nothing", "{tmp}/file"])
def test_directory_that_cannot_be_written(target: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    target = target.format(tmp=tmp_path)
    with pytest.raises(FlagError, match=f"--xla_dump_to={target}: nothing can be written to"):
        compile_with(f"--xla_dump_to={target}")


def test_directory_that_becomes_unwritable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(FlagError, match=r"cannot be written \(No space left on device\)"):
        compile_with(f"--xla_dump_to={tmp_path}")
