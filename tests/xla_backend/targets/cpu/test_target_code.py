"""Object code for other machines: made here, neither linked nor run; the sample is taken apart."""

import re

import pytest

from xla_backend import CompileOptions, Target, compile, parse_hlo
from xla_backend.compile_target import find_target
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.llvm.target import host_target, make_target
from xla_backend.targets.cpu.compiler import compile_module

# A sum over an odd number of elements, a matrix product with an epilogue, a sort, a loop, a
# transform, and more constants than fit into the object.
PROGRAMS = {
    "elementwise": """ENTRY e {
  x = f32[1003] parameter(0)
  s = f32[1003] sine(x)
  t = f32[1003] tanh(x)
  ROOT r = f32[1003] add(s, t)
}""",
    "reduction": """sum { a = f64[] parameter(0)  b = f64[] parameter(1)  ROOT c = f64[] add(a, b) }
ENTRY e {
  x = f64[77,1001] parameter(0)
  zero = f64[] constant(0)
  ROOT r = f64[77] reduce(x, zero), dimensions={1}, to_apply=sum
}""",
    "product": """ENTRY e {
  x = f32[40,70] parameter(0)
  y = f32[70,53] parameter(1)
  d = f32[40,53] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = f32[40,53] tanh(d)
}""",
    "convolution": """ENTRY e {
  x = f32[2,9,10,5] parameter(0)
  y = f32[3,3,5,7] parameter(1)
  c = f32[2,9,10,7] convolution(x, y), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  ROOT r = f32[2,9,10,7] abs(c)
}""",
    "sort": """less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}
ENTRY e {
  x = f32[3,999] parameter(0)
  ROOT s = f32[3,999] sort(x), dimensions={1}, to_apply=less
}
""",
    "loop": """again {
  p = (s32[], f16[33]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(10)
  ROOT c = pred[] compare(i, n), direction=LT
}
step {
  p = (s32[], f16[33]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f16[33] get-tuple-element(p), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f16[33] exponential(x)
  ROOT t = (s32[], f16[33]) tuple(j, y)
}
ENTRY e {
  x = f16[33] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f16[33]) tuple(zero, x)
  w = (s32[], f16[33]) while(t), condition=again, body=step
  ROOT r = f16[33] get-tuple-element(w), index=1
}""",
    "transform": """ENTRY e {
  x = c64[2,60] parameter(0)
  ROOT r = c64[2,60] fft(x), fft_type=FFT, fft_length={60}
}""",
    "host": """ENTRY e {
  x = f16[2,4,4] parameter(0)
  ROOT r = f16[2,4,4] cholesky(x), lower=true
}""",
    "matrices": """ENTRY e {
  a = f64[9,3,3] parameter(0)
  b = f64[9,3,2] parameter(1)
  l = f64[9,3,3] cholesky(a), lower=true
  x = f64[9,3,2] triangular-solve(l, b), left_side=true, lower=true, transpose_a=NO_TRANSPOSE
  ROOT f = c128[9,3,2] fft(x), fft_type=RFFT, fft_length={2}
}""",
}
MACHINES = {"x86-64-v2": 62, "aarch64": 183}  # numbers of the ELF header


def emitted(name, target):
    return compile(parse_hlo(PROGRAMS[name]), target=target)


def wasm_sections(code):
    """The kinds of the sections of a WebAssembly module, which must fill it."""
    kinds, at = [], 8
    while at < len(code):
        kinds.append(code[at])
        at += 1
        size = shift = 0
        while True:
            byte = code[at]
            size |= (byte & 127) << shift
            at, shift = at + 1, shift + 7
            if byte < 128:
                break
        at += size
    assert at == len(code)
    return kinds


@pytest.mark.parametrize("name", sorted(PROGRAMS))
@pytest.mark.parametrize("target", sorted(MACHINES))
def test_elf_objects(name, target):
    program = emitted(name, target)
    for code in (program.object_code(), *program.routines().values()):
        assert code[:6] == b"\x7fELF\x02\x01"  # 64 bits, the lowest byte first
        assert int.from_bytes(code[16:18], "little") == 1  # to be linked
        assert int.from_bytes(code[18:20], "little") == MACHINES[target]


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_wasm_objects(name):
    program = emitted(name, "wasm32")
    for code in (program.object_code(), *program.routines().values()):
        assert code[:8] == b"\0asm\x01\0\0\0"
        kinds = wasm_sections(code)
        assert 1 in kinds and 10 in kinds  # types and code


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_no_instruction_that_the_machine_lacks(name):
    older = emitted(name, "x86-64-v2").assembly()
    # Three operands, wide registers and masks came with AVX; so did what starts with a v.
    assert not re.search(r"%[yz]mm|%k[0-7]\b|^\tv[a-z]", older, re.MULTILINE)
    arm = emitted(name, "aarch64").assembly()
    assert not re.search(r"\bz\d+\.|\bp\d+/|%[a-z]", arm)  # SVE, x86
    wasm = emitted(name, "wasm32").assembly()
    assert ".functype\tentry (i32, i32, i32) -> (i32)" in wasm
    if name == "elementwise":
        assert "%xmm" in older and re.search(r"\bv\d+\.4s", arm) and "f32x4.mul" in wasm


HEAVY = """ENTRY e {{
  x = {0}[1003] parameter(0)
  s = {0}[1003] sine(x)
  t = {0}[1003] tanh(s)
  ROOT r = {0}[1003] power(t, x)
}}"""


@pytest.mark.parametrize(
    "target, type, masks",
    [
        ("x86-64-v4", "bf16", True),
        ("x86-64-v3", "f32", True),
        ("x86-64-v3", "bf16", False),
        ("x86-64-v2", "f32", False),
        ("aarch64", "f32", False),
        ("wasm32", "bf16", False),
    ],
)
def test_no_test_of_each_lane_in_each_round(target, type, masks):
    """A large body is written once, under a mask that varies, unless that is a branch per lane."""
    text = compile(parse_hlo(HEAVY.format(type)), target=target).texts()["llvm"]
    assert (re.search(r"icmp ugt <\d+ x i32> %", text) is not None) == masks


def test_whole_groups_are_accessed_without_a_mask():
    """Under a mask, a body that is there once would take several times as long."""
    text = compile(parse_hlo(HEAVY.format("f32")), target="x86-64-v4").texts()["llvm"]
    for access in ("load", "store"):
        plain = re.findall(rf"\b{access} <\d+ x float>", text)
        masked = re.findall(rf"call .*@llvm.masked.{access}", text)
        assert len(plain) >= len(masked) > 0


def test_addresses_of_32_bits():
    """Tables of addresses have a step of four bytes, and loads of them claim no more."""
    wasm = emitted("reduction", "wasm32")
    assert "load ptr, ptr %args, align 4" in wasm.texts()["llvm"]
    assert "load ptr, ptr %args, align 8" in emitted("reduction", "aarch64").texts()["llvm"]
    workspace = emitted("product", "wasm32").routines()
    assert workspace
    assert "i32.load\t0" in wasm.assembly() or "i32.load 0" in wasm.assembly()


@pytest.mark.parametrize(
    "triple, start",
    [
        ("arm64-apple-macosx11.0.0", b"\xcf\xfa\xed\xfe\x0c\0\0\x01"),
        ("x86_64-apple-macosx10.15.0", b"\xcf\xfa\xed\xfe\x07\0\0\x01"),
        ("x86_64-pc-windows-msvc", b"\x64\x86"),
        ("aarch64-pc-windows-msvc", b"\x64\xaa"),
    ],
)
def test_other_object_formats(triple, start):
    for name in ("product", "loop"):
        program = emitted(name, triple)
        for code in (program.object_code(), *program.routines().values()):
            assert code.startswith(start)


def test_what_the_program_needs_besides():
    program = emitted("product", "aarch64")
    assert list(program.routines()) == ["gemm_f32.packed_even", "workspace"]
    needs = program.needs()
    assert "pyjax_parallel_for_polled" in needs and "pyjax_num_threads" in needs
    assert "pyjax_host_call" in emitted("host", "aarch64").needs()
    alone = emitted("elementwise", "aarch64")
    assert alone.routines() == {} and alone.needs() == []


def test_texts():
    texts = emitted("elementwise", "wasm32").texts()
    assert texts["hlo"].startswith("HloModule") and "for " in texts["loops"]
    assert re.search(r"<\d+ x float>", texts["llvm"])


def test_the_module_stays_as_it_is():
    module = parse_hlo(PROGRAMS["product"])
    before = str(module)
    compile(module, target="aarch64")
    assert str(module) == before


def test_names_of_targets():
    assert find_target("aarch64") == Target("aarch64-unknown-linux-gnu", "generic")
    named = Target("aarch64-unknown-linux-gnu", "neoverse-n1", "+sve")
    assert find_target(named) == named
    more = find_target(Target("wasm32-unknown-wasi", features="+relaxed-simd"))
    assert more.features == "+simd128,+relaxed-simd"
    assert find_target("sm_90") == Target("nvptx64-nvidia-cuda", "sm_90")
    with pytest.raises(TypeError, match=r"and this is 90: write 'sm_90'"):
        find_target(90)
    with pytest.raises(TypeError, match=r"and this is 91: write one of x86-64, .*sm_120"):
        find_target(91)
    assert find_target("nvptx64-nvidia-cuda").cpu == "sm_80"
    for wrong in ("spirv64-unknown", "arch", "aarch64_be", "sm_75"):
        with pytest.raises(ValueError, match=f"target '{wrong}'.*x86-64-v2.*Target"):
            compile(parse_hlo(PROGRAMS["sort"]), target=wrong)


@pytest.mark.parametrize(
    "triple, bits", [("wasm32-unknown-unknown", 32), ("aarch64-linux-gnu", 64)]
)
def test_width_of_addresses_is_that_of_llvm(triple, bits):
    target = make_target(triple, "generic")
    assert target.pointer_bits == bits and target.size_type == f"i{bits}"


def test_code_for_another_machine_is_not_loaded():
    other = "aarch64" if host_target().is_x86 else "x86-64-v2"
    with pytest.raises(UnimplementedError, match="cannot run on"):
        compile_module(parse_hlo(PROGRAMS["sort"]), CompileOptions(target=find_target(other)))


def test_platforms_without_object_code():
    with pytest.raises(UnimplementedError, match="platform 'interpreter' makes no object code"):
        compile(parse_hlo(PROGRAMS["sort"]), "interpreter", target="aarch64")
