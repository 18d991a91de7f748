"""The digest of the compiler's sources: another one for other contents, found without reading."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from xla_backend.persistent import settings, sources, store
from xla_backend.persistent.sources import source_digest


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    root = tmp_path / "compiler"
    (root / "hlo").mkdir(parents=True)
    (root / "a.py").write_text("x = 1\n")
    (root / "hlo" / "b.py").write_text("y = 2\n")
    (root / "hlo" / "notes.txt").write_text("no source\n")
    own = settings.CacheSettings(directory=str(tmp_path / "cache"))
    monkeypatch.setattr(settings, "_settings", own)
    monkeypatch.setattr(sources, "_ROOT", root)
    monkeypatch.setattr(sources, "_LOADED", time.time_ns() + 10**12)
    source_digest.clear()
    yield root
    source_digest.clear()


def anew(*rooms: str) -> str | None:
    source_digest.clear()
    return source_digest(*rooms)


def test_other_contents_are_another_digest(tree: Path) -> None:
    first, of_hlo = anew(), anew("hlo")
    assert first and of_hlo and first != of_hlo and anew() == first
    (tree / "a.py").write_text("x = 3\n")
    second = anew()
    assert second not in (None, first) and anew("hlo") == of_hlo
    (tree / "hlo" / "notes.txt").write_text("still none\n")
    assert anew() == second
    (tree / "a.py").write_text("x = 1\n")
    assert anew() == first
    (tree / "a.py").rename(tree / "c.py")
    assert anew() not in (None, first, second)


def test_contents_are_read_once(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = anew()
    monkeypatch.setattr("builtins.open", lambda *_: pytest.fail("a source was read"))
    assert anew() == first


def test_a_change_that_keeps_size_and_time_is_seen(tree: Path) -> None:
    before = os.stat(tree / "a.py")
    first = anew()
    (tree / "a.py").write_text("x = 2\n")
    os.utime(tree / "a.py", ns=(before.st_atime_ns, before.st_mtime_ns))
    after = os.stat(tree / "a.py")
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert anew() != first


def test_sources_that_changed_since_they_were_loaded(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows which ones this process runs."""
    monkeypatch.setattr(sources, "_LOADED", time.time_ns() - 10**12)
    assert anew() is None


def test_no_sources(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_ROOT", tree / "nowhere")
    (tree / "nowhere").mkdir()
    assert anew() is None


def test_without_a_cache(tree: Path) -> None:
    settings.change_cache_settings(enabled=False)
    first = anew()
    settings.change_cache_settings(enabled=True)
    assert anew() == first and store.status().kinds == {"sources": 1}
