"""The digest of the compiler's sources: another one for other contents, found without reading."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

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
    forget()
    yield root
    forget()


def forget() -> None:
    source_digest.clear()
    sources._digests.clear()
    sources._of_digest.clear()
    sources._modules, sources._is_stale = 0, False


def anew(*rooms: str) -> str | None:
    forget()
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


def test_an_edit_in_the_moment_of_loading(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the system says of its time may be older than the edit."""
    changed = os.stat(tree / "a.py").st_ctime_ns
    monkeypatch.setattr(sources, "_LOADED", changed + 5_000_000)
    assert anew() is None
    monkeypatch.setattr(sources, "_LOADED", changed + 500_000_000)
    assert anew() is not None


def test_an_edit_within_the_second_that_keeps_the_size(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a file system that keeps whole seconds nobody can tell it from what was there before, so
    there is no digest until the second is over."""
    found = sources._files
    second = time.time_ns() // 10**9 * 10**9

    def in_whole_seconds(*where: Any) -> list[Any]:
        return [(*of[:3], second, second, of[5]) for of in found(*where)]

    monkeypatch.setattr(sources, "_files", in_whole_seconds)
    facts = in_whole_seconds(str(tree), [""], ())
    for text in ("x = 8\n", "x = 9\n"):
        (tree / "a.py").write_text(text)
        assert in_whole_seconds(str(tree), [""], ()) == facts
        monkeypatch.setattr(sources, "_LOADED", second + 999_000_000)
        assert anew() is None and store.status().entries == 0
    monkeypatch.setattr(sources, "_LOADED", second + 3 * 10**9)
    nine = anew()
    monkeypatch.setattr(sources, "_files", found)
    monkeypatch.setattr(sources, "_LOADED", time.time_ns() + 10**12)
    assert nine == anew()
    (tree / "a.py").write_text("x = 8\n")
    assert nine not in (None, anew())


def test_sources_that_are_written_to_while_they_are_read(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = sources._read

    def and_write(root: str, files: list) -> dict[str, str]:
        (tree / "a.py").write_text("x = 4\n")
        return read(root, files)

    monkeypatch.setattr(sources, "_read", and_write)
    assert anew() is None and store.status().entries == 0
    monkeypatch.setattr(sources, "_read", read)
    assert anew() is not None


def test_a_module_that_is_edited_before_it_is_loaded(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it makes is not kept under the digest of what was there before."""
    changed = [os.stat(file).st_ctime_ns for file in (tree / "a.py", tree / "hlo" / "b.py")]
    monkeypatch.setattr(sources, "_LOADED", max(changed) + 50_000_000)
    key = store.entry_key("any", "thing")
    assert anew()
    _load(tree / "a.py", monkeypatch)
    assert sources.keep_for_sources(key, "any", "", b"content")
    while time.time_ns() < sources._LOADED:
        time.sleep(0.01)
    (tree / "a.py").write_text("x = 5\n")  # it is loaded already
    assert sources.keep_for_sources(key, "any", "", b"content")
    (tree / "hlo" / "b.py").write_text("y = 5\n")
    _load(tree / "hlo" / "b.py", monkeypatch)
    assert not sources.keep_for_sources(key, "any", "", b"content")
    assert source_digest() is None


def _load(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType(file.stem)
    module.__file__ = str(file)
    monkeypatch.setitem(sys.modules, f"module_of_{file.stem}", module)


def test_files_of_editors_are_no_sources(tree: Path) -> None:
    first = anew()
    (tree / ".#a.py").symlink_to("somebody@somewhere")
    assert anew() == first


def test_sources_that_go_away(tree: Path) -> None:
    (tree / "b.py").symlink_to("nowhere.py")
    assert anew() is None


def test_programs_need_none_of_what_is_left_out() -> None:
    root = Path(store.__file__).parent.parent
    modules = [f"xla_backend.{room.replace('/', '.')}" for room in sources.NO_PART]
    named = set()
    for path in root.rglob("*.py"):
        name = path.relative_to(root).as_posix()
        if not name.startswith(tuple(f"{room}/" for room in sources.NO_PART)):
            text = path.read_text()
            named.update(name for module in modules if module in text)
    # Who says which targets there are, and a report that nothing is compiled with.
    assert named == {"targets/built_in.py", "partition_report.py"}
    importers = [p for p in root.rglob("*.py") if "xla_backend.partition_report" in p.read_text()]
    assert not importers


def test_no_sources(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_ROOT", tree / "nowhere")
    (tree / "nowhere").mkdir()
    assert anew() is None


def test_without_a_cache(tree: Path) -> None:
    settings.change_cache_settings(enabled=False)
    first = anew()
    settings.change_cache_settings(enabled=True)
    assert anew() == first and store.status().kinds == {"sources": 1}
