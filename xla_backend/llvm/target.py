"""What generated code must know of its target: vector width, fused multiply-add, half conversions.

API
  host_target() -> TargetInfo                 this machine
  make_target(triple, cpu, features)          any other; `features` is LLVM's "+a,-b" list
  levels_of(target) -> targets                levels of x86-64 whose code does the same there
  TargetInfo.lanes(bits) -> int               elements of that width in a vector register
  TargetInfo.spin_hint                        the intrinsic for loops that wait, if there is one

Nothing here emits code; machine code is made in `jit`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from functools import cache

from xla_backend.llvm.versions import llvm_version
from xla_backend.persistent import installed, store
from xla_backend.persistent.settings import cache_settings
from xla_backend.process.on_first_use import on_first_use
from xla_backend.process.values import Value

_ask_llvm = on_first_use("xla_backend.llvm.host", "host_names")
# Of the entry on disk that says what LLVM calls this machine.
_KIND = "host"
_CPU_FACTS = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags")
_CPU_TEXT = 1 << 16

# Features that an x86-64 level name implies; used when a target is named without a feature list.
_V2 = ("cx16", "sse3", "ssse3", "sse4.1", "sse4.2", "popcnt")
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
LEVELS = {"x86-64": (), "x86-64-v2": _V2, "x86-64-v3": _V3, "x86-64-v4": _V4}
# 512-bit code needs the whole set: masks of bytes and words (BW), 64-bit multiplies (DQ), narrow
# forms (VL).
_AVX512 = ("avx512f", "avx512bw", "avx512dq", "avx512vl")
_X86 = ("x86_64", "amd64", "i386", "i686")
_NVPTX = ("nvptx64",)
_NARROWEST_BY_SIGN = 32
_NARROW_POINTERS = ("wasm32", "i386", "i686")


class TargetInfo(Value):
    """A compilation target and the facts about it that shape the emitted code.

    Fields:
      triple, cpu, features: LLVM's names.
      arch: the first part of the triple ("x86_64", "aarch64", "wasm32", ...).
      vector_bits: width of a vector register code should be written for (512, 256 or 128).
      has_fma: a fused multiply-add is one instruction (else `llvm.fma` would call libm).
      has_half: f32 <-> f16 conversions are instructions.
      has_masks: masked loads and stores are instructions rather than a branch per lane.
      pointer_bits: width of an address.
      masks_by_sign: these instructions take the signs of a vector, not a mask register (AVX2).
    """

    triple: str
    cpu: str
    features: str
    arch: str
    vector_bits: int
    has_fma: bool
    has_half: bool
    has_masks: bool
    masks_by_sign: bool
    pointer_bits: int

    def lanes(self, bits: int) -> int:
        """How many elements of `bits` bits one vector register holds (at least 1)."""
        return max(1, self.vector_bits // bits)

    def has_masked_moves(self, bits: int) -> bool:
        """Whether masked loads and stores of elements of this width are instructions rather than a
        branch per lane."""
        return self.has_masks and (bits >= _NARROWEST_BY_SIGN or not self.masks_by_sign)

    @property
    def permutes_bytes(self) -> bool:
        """Whether registers of 128 bits have an instruction that permutes bytes by other ones."""
        on = _enabled(self.features) | frozenset(LEVELS.get(self.cpu, ()))
        return self.is_aarch64 or (self.is_x86 and "ssse3" in on)

    @property
    def permutes_wide_bytes(self) -> bool:
        """Whether an instruction permutes the bytes of a whole register."""
        on = _enabled(self.features)
        return self.is_x86 and self.vector_bits == 512 and "avx512vbmi" in on

    @property
    def permutes_registers(self) -> bool:
        """Whether an instruction permutes elements of a whole register by those of another."""
        return self.is_x86 and self.vector_bits >= 256  # AVX2 and AVX-512

    @property
    def adds_bfloat_products(self) -> bool:
        """Whether an instruction adds two products of bf16 to each f32 of a register, as two fused
        multiply-adds do one after the other, but for subnormal numbers, which it takes for zero."""
        return self.is_x86 and self.vector_bits == 512 and has_features(self, ("avx512bf16",))

    @property
    def gathers_slowly(self) -> bool:
        """Whether single loads are quicker than instructions that gather."""
        return self.cpu == "znver4" and self.vector_bits == 512

    @property
    def has_range(self) -> bool:
        """Whether an instruction finds the larger of two floats by value and sign."""
        return self.is_x86 and self.vector_bits == 512  # of AVX512DQ and VL

    @property
    def key(self) -> str:
        """One short line, another one for every other target."""
        return f"{self.triple} {self.cpu} {self.vector_bits} {_digest(self.features)}"

    @property
    def size_type(self) -> str:
        """The integer that C's size_t is."""
        return f"i{self.pointer_bits}"

    @property
    def is_x86(self) -> bool:
        return self.arch in _X86

    @property
    def is_nvptx(self) -> bool:
        return self.arch in _NVPTX

    @property
    def has_bfloat(self) -> bool:
        """Whether roundings of f32 to bf16 are instructions that keep subnormals."""
        return self.is_nvptx  # from sm_80 on

    @property
    def is_aarch64(self) -> bool:
        return self.arch in ("aarch64", "arm64", "arm64e")

    @property
    def spin_hint(self) -> tuple[str, list[tuple[str, str]]] | None:
        """The intrinsic that tells the core it is in a spin loop, and its arguments."""
        if self.is_x86:
            return "llvm.x86.sse2.pause", []
        if self.is_aarch64:
            return "llvm.aarch64.hint", [("i32", "1")]
        return None


@cache
def _digest(features: str) -> str:
    return hashlib.sha256(features.encode()).hexdigest()[:16]


@cache
def _enabled(features: str) -> frozenset[str]:
    on: set[str] = set()
    for feature in filter(None, features.split(",")):
        (on.add if feature[0] == "+" else on.discard)(feature.lstrip("+-"))
    return frozenset(on)


@cache
def make_target(triple: str, cpu: str, features: str = "") -> TargetInfo:
    """The target with these LLVM names.

    An x86-64 level as `cpu` ("x86-64-v3") brings its features with it; for any other CPU name the
    feature list must say what may be used (a plain x86-64 or ARM64 otherwise).
    """
    arch = triple.split("-", 1)[0]
    on = _enabled(features) | frozenset(LEVELS.get(cpu, ()))
    if arch in _X86:
        avx512 = all(f in on for f in _AVX512)
        bits = 512 if avx512 else 256 if "avx2" in on else 128
        masks = avx512 or "avx2" in on
        facts = (bits, "fma" in on, "f16c" in on or avx512, masks, masks and not avx512)
    elif arch in ("aarch64", "arm64", "arm64e"):
        facts = (128, True, True, False, False)
    elif arch in _NVPTX:
        facts = (128, True, True, False, False)  # vectors: of one access to memory
    else:
        facts = (128, False, False, False, False)
    pointer_bits = 32 if arch in _NARROW_POINTERS else 64
    return TargetInfo(triple, cpu, features, arch, *facts, pointer_bits)


@cache
def levels_of(target: TargetInfo) -> tuple[TargetInfo, ...]:
    """Levels of x86-64 whose code runs on a target, and does the same there: code is written for
    them as for the target itself. The highest first."""
    found = []
    for level, needed in reversed(LEVELS.items()):
        other = make_target(target.triple, level)
        named = other._replace(cpu=target.cpu, features=target.features)
        same = named == target and other.permutes_bytes == target.permutes_bytes
        if target.is_x86 and same and other != target and has_features(target, needed):
            found.append(other)
    return tuple(found)


def has_features(target: TargetInfo, needed: Sequence[str] | None) -> bool:
    """Whether a target has all of some features; of None, it has not."""
    on = _enabled(target.features) | frozenset(LEVELS.get(target.cpu, ()))
    return needed is not None and on.issuperset(needed)


@cache
def host_target() -> TargetInfo:
    """The machine this process runs on, with every feature its CPU and system report."""
    facts = _cpu_facts() if cache_settings().internal else None
    if facts is None:
        return make_target(*_ask_llvm())
    key = store.entry_key(_KIND, llvm_version(), *facts)
    kept = store.load(key, _KIND, "") or installed.load(_machine_pack(key), lambda: key, _KIND, "")
    if kept is not None:
        return make_target(*json.loads(kept))
    names: list[str] = [*_ask_llvm()]
    store.store(key, _KIND, "", json.dumps(names).encode())
    return make_target(*names)


def machine_pack() -> tuple[str, installed.Entry] | None:
    """What LLVM calls this machine, as a pack of its own, and its name; None if the system does not
    tell what that depends on."""
    facts = _cpu_facts()
    if facts is None:
        return None
    key = store.entry_key(_KIND, llvm_version(), *facts)
    host = host_target()
    content = json.dumps([host.triple, host.cpu, host.features]).encode()
    return _machine_pack(key), installed.Entry(key, _KIND, "", content)


def _machine_pack(key: str) -> str:
    return f"machine-{key[:16]}"


def _cpu_facts() -> list[str] | None:
    """All that LLVM's names of this machine follow from; None if the system does not tell."""
    if not hasattr(os, "uname"):
        return None
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            first, end, _ = file.read(_CPU_TEXT).partition(b"\n\n")
    except OSError:
        return None
    lines = [line.partition(":") for line in first.decode(errors="replace").splitlines()]
    found = {name.strip(): value.strip() for name, _, value in lines}
    if not end or not all(name in found for name in _CPU_FACTS):
        return None
    return [*os.uname()[2:], *(found[name] for name in _CPU_FACTS)]
