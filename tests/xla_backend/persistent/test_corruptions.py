"""Entries of programs, corrupted in every way a file can be: none is ever linked, each is compiled
again, and the results are right."""

from __future__ import annotations

import hashlib
import json
import os
import random
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.module_source import ModuleSource
from xla_backend.hlo.parser import parse_module
from xla_backend.persistent import entry_format, settings, store
from xla_backend.runtime.hlo_client import host_device
from xla_backend.targets.cpu import kept_programs
from xla_backend.targets.cpu.kept_programs import find_program

TEXTS = [
    """ENTRY e { x = f32[6,6] parameter(0)
      d = f32[6,6] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      ROOT r = f32[6,6] tanh(d) }""",
    """ENTRY e { x = f32[6,6] parameter(0)
      e = f32[6,6] exponential(x)
      ROOT r = f32[6,6] add(e, x) }""",
    """ENTRY e { x = f32[6,6] parameter(0)
      o = f32[] constant(0)
      p = f32[6,17] pad(x, o), padding=0_0x0_11
      c = c64[6,17] convert(p)
      f = c64[6,17] fft(c), fft_type=FFT, fft_length={17}
      s = c64[6,6] slice(f), slice={[0:6], [0:6]}
      ROOT r = f32[6,6] real(s) }""",
]
X = np.linspace(-1, 1, 36, dtype=np.float32).reshape(6, 6)


class Kept(NamedTuple):
    """A program on disk."""

    module: HloModule
    path: Path
    good: bytes
    result: bytes


class Corruption:
    """What can be done to the entries; `draw` decides the rest."""

    def __init__(self, kept: list[Kept], secret: bytes, draw: random.Random) -> None:
        self.kept = kept
        self.secret = secret
        self.draw = draw

    def bytes_changed(self, data: bytes) -> bytes:
        changed = bytearray(data)
        for _ in range(self.draw.choice((1, 1, 2, 8, 64))):
            changed[self.draw.randrange(len(data))] = self.draw.randrange(256)
        return bytes(changed)

    def bit_flipped(self, data: bytes) -> bytes:
        changed = bytearray(data)
        changed[self.draw.randrange(len(data))] ^= 1 << self.draw.randrange(8)
        return bytes(changed)

    def cut(self, data: bytes) -> bytes:
        return data[: self.draw.randrange(len(data))]

    def cut_in_front(self, data: bytes) -> bytes:
        return data[self.draw.randrange(1, len(data)) :]

    def longer(self, data: bytes) -> bytes:
        return data + self.draw.randbytes(self.draw.randrange(1, 500))

    def a_piece_twice(self, data: bytes) -> bytes:
        at, size = self.draw.randrange(len(data)), self.draw.randrange(1, 500)
        return data[:at] + data[at : at + size] + data[at:]

    def exchanged(self, data: bytes) -> bytes:
        return self.draw.choice([k.good for k in self.kept if k.good != data])

    def code_of_another(self, data: bytes) -> bytes:
        """This head, that content."""
        other = self.exchanged(data)
        return b"\n".join(data.split(b"\n", 6)[:6]) + b"\n" + other.split(b"\n", 6)[6]

    def head_changed(self, data: bytes) -> bytes:
        """A line of the head, and a checksum that anybody can compute."""
        lines = data.split(b"\n", 6)
        number = self.draw.randrange(5)
        line = bytearray(lines[number])
        line[self.draw.randrange(len(line))] ^= 1 << self.draw.randrange(7)
        lines[number] = bytes(line)
        lines[5] = hashlib.sha256(b"\n".join([*lines[:5], lines[6]])).hexdigest().encode()
        return b"\n".join(lines)

    def content_changed(self, data: bytes) -> bytes:
        """The facts or the code, and such a checksum."""
        lines = data.split(b"\n", 6)
        lines[6] = self.bytes_changed(lines[6])
        lines[5] = hashlib.sha256(b"\n".join([*lines[:5], lines[6]])).hexdigest().encode()
        return b"\n".join(lines)

    def head_changed_and_signed(self, data: bytes) -> bytes:
        """A line of the head, by somebody who has the secret."""
        lines = data.split(b"\n", 6)
        number = self.draw.randrange(4)
        lines[number] = lines[number][:-1] + bytes([lines[number][-1] ^ 1])
        head = [line.decode("latin1") for line in lines[:4]]
        return entry_format.signed_entry(self.secret, head, lines[6])

    def wrong_length(self, data: bytes) -> bytes:
        """Of the content, in a head that is signed."""
        lines = data.split(b"\n", 6)
        length = self.draw.choice((0, -1, 1 << 40, int(lines[4]) + self.draw.choice((-1, 1))))
        lines[4] = str(length).encode()
        signed = b"\n".join(lines[:5]) + b"\n"
        lines[5] = entry_format._signature(self.secret, signed, lines[6])
        return b"\n".join(lines)

    def facts_changed_and_signed(self, data: bytes) -> bytes:
        """Facts that are not of this program, by somebody who has the secret."""
        lines = data.split(b"\n", 6)
        facts, code = lines[6].split(b"\n", 1)
        written = self.draw.choice(self.FACTS)(self, facts)
        head = [line.decode() for line in lines[:4]]
        return entry_format.signed_entry(self.secret, head, written + b"\n" + code)

    def sizes_changed(self, facts: bytes) -> bytes:
        content = json.loads(facts)
        objects = dict(content["program"][2:])["objects"]
        _, size = objects[1]
        sizes = self.draw.choice(([], [0], [-1, size + 1], [size + 1], [size - 1]))
        objects[1:] = [["b", size] for size in sizes]
        return json.dumps(content).encode()

    def shapes_changed(self, facts: bytes) -> bytes:
        old, new = self.draw.choice(((b'["t",6,6]', b'["t",6,7]'), (b'"F32"', b'"F64"')))
        assert old in facts
        return facts.replace(old, new)

    def nonsense(self, facts: bytes) -> bytes:
        return self.draw.choice(
            (b"", b"null", b"[]", b"{}", b'{"format":"pyjax program"}', facts[:-1], facts[1:])
        )

    def another_record(self, facts: bytes) -> bytes:
        name = self.draw.choice((b'"ElementwiseFacts"', b'"Slice"', b'"Nothing"', b'"__import__"'))
        return facts.replace(b'"CodeFacts"', name)

    def a_field_less(self, facts: bytes) -> bytes:
        content = json.loads(facts)
        facts_written = dict(content["program"][2:])["facts"]
        del facts_written[self.draw.randrange(2, len(facts_written))]
        return json.dumps(content).encode()

    FACTS = (sizes_changed, shapes_changed, nonsense, another_record, a_field_less)
    WAYS = (
        bytes_changed,
        bit_flipped,
        cut,
        cut_in_front,
        longer,
        a_piece_twice,
        exchanged,
        code_of_another,
        head_changed,
        content_changed,
        head_changed_and_signed,
        wrong_length,
        facts_changed_and_signed,
    )


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Kept]]:
    """Programs on disk; from now on nothing is loaded from there."""
    own = settings.CacheSettings(directory=str(tmp_path / "cache"), limit=None)
    monkeypatch.setattr(settings, "_settings", own)
    monkeypatch.setattr(store, "_warned", set())
    programs = []
    for text in TEXTS:
        module = parse_module(text)
        before = {*tmp_path.rglob("*.program")}
        result = run(module)
        (path,) = {*tmp_path.rglob("*.program")} - before
        programs.append(Kept(module, path, path.read_bytes(), result))
        assert loads(module, monkeypatch), "an entry as it was written is used"
    monkeypatch.setattr(kept_programs, "load_code", lambda *_: pytest.fail("it was loaded"))
    yield programs


def loads(module: HloModule, monkeypatch: pytest.MonkeyPatch) -> bool:
    loaded: list[Any] = []
    load = kept_programs.load_code
    with monkeypatch.context() as watching:
        watching.setattr(kept_programs, "load_code", lambda *a: loaded.append(1) or load(*a))
        run(module)
    return bool(loaded)


def run(module: HloModule) -> bytes:
    executable = find_program(ModuleSource.of(module.clone()), CompileOptions(), host_device())
    return executable.run_arrays([X])[0].tobytes()


def check_corruptions(
    kept: list[Kept], count: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> dict[str, int]:
    """How many there were of each kind. One in 40 is really compiled again; for the rest, what was
    compiled once stands for it."""
    draw = random.Random(seed)
    secret = (kept[0].path.parents[1] / "secret").read_bytes()
    corruption = Corruption(kept, secret, draw)
    compile_code = kept_programs._compile_code
    options = CompileOptions()
    made = {
        id(k): compile_code(k.module.clone(), options, host_device(), cache=False) for k in kept
    }
    counts: dict[str, int] = {}
    for number in range(count):
        victim = draw.choice(kept)
        way: Callable[..., bytes] = draw.choice(Corruption.WAYS)
        bad = way(corruption, victim.good)
        if bad == victim.good:
            continue
        victim.path.write_bytes(bad)
        again = made[id(victim)]
        really = number % 40 == 0
        monkeypatch.setattr(
            kept_programs,
            "_compile_code",
            compile_code if really else lambda *_, again=again, **__: again,
        )
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            store._warned.clear()
            assert run(victim.module) == victim.result, (number, way.__name__)
        assert [w for w in said if "compiled again" in str(w.message)], (number, way.__name__)
        written = victim.path.read_bytes()  # anew
        head = [b.decode() for b in victim.good.split(b"\n", 4)[:4]]
        assert entry_format.content_of(written, head, [corruption.secret])
        counts[way.__name__] = counts.get(way.__name__, 0) + 1
    return counts


def test_corruptions(kept: list[Kept], monkeypatch: pytest.MonkeyPatch) -> None:
    counts = check_corruptions(kept, 200, 0, monkeypatch)
    assert len(counts) == len(Corruption.WAYS) and sum(counts.values()) > 190


@pytest.mark.slow
def test_ten_thousand_corruptions(kept: list[Kept], monkeypatch: pytest.MonkeyPatch) -> None:
    counts = check_corruptions(kept, 10_100, 1, monkeypatch)
    assert len(counts) == len(Corruption.WAYS) and sum(counts.values()) >= 10_000


def _link_to_a_good_one(path: Path, good: bytes) -> None:
    path.with_suffix(".good").write_bytes(good)
    path.symlink_to(path.with_suffix(".good"))


def _for_everybody(path: Path, good: bytes) -> None:
    path.write_bytes(good)
    path.chmod(0o666)


def _of_another_user(path: Path, good: bytes) -> None:
    if not hasattr(os, "geteuid") or os.geteuid():
        pytest.skip("only root gives files away")
    path.write_bytes(good)
    os.chown(path, 12345, -1)


def _of_another_processor(path: Path, good: bytes) -> None:
    head = [line.decode() for line in good.split(b"\n", 4)[:4]]
    secret = (path.parents[1] / "secret").read_bytes()
    head[3] = head[3].replace("x86_64", "riscv64").replace("arm64", "riscv64")
    path.write_bytes(entry_format.signed_entry(secret, head, good.split(b"\n", 6)[6]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (_link_to_a_good_one, "is a symbolic link"),
        (_for_everybody, "may be written by others"),
        (_of_another_user, "belongs to user 12345"),
        (_of_another_processor, "is for another processor"),
    ],
)
def test_good_entries_that_may_not_be_used(
    kept: list[Kept], make: Callable[[Path, bytes], None], message: str
) -> None:
    for victim in kept:
        victim.path.unlink()
        make(victim.path, victim.good)
        store._warned.clear()
        with pytest.warns(RuntimeWarning, match=message):
            assert run(victim.module) == victim.result


def test_refused_entries_raise_if_asked_for(
    kept: list[Kept], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.change_cache_settings(raise_errors=True)
    for victim in kept:
        victim.path.write_bytes(victim.good[:-1])
        with pytest.raises(store.PersistentCacheError, match="is damaged"):
            run(victim.module)
