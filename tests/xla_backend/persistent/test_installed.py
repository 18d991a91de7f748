"""Packs of entries that come with the installation: found by their whole key, or not used."""

import os
import warnings

import pytest

from xla_backend.persistent import installed, settings, store
from xla_backend.persistent.installed import Entry, load, packs, write_pack
from xla_backend.persistent.settings import change_cache_settings

KEYS = ["11" * 32, "ab" * 32, "fe" * 32]
ENTRIES = [Entry(key, "object", "a cpu", bytes([i]) * 1000) for i, key in enumerate(KEYS)]
# Bytes of the head of a pack, and of a record.
HEAD, RECORD = 40, 48


@pytest.fixture
def directory(tmp_path, monkeypatch):
    monkeypatch.setenv("PYJAX_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PYJAX_INSTALLED_DIR", str(tmp_path / "installed"))
    monkeypatch.setattr(store, "_warned", set())
    monkeypatch.setattr(settings, "_settings", settings.CacheSettings())
    write_pack(tmp_path / "installed", "one", ENTRIES[::-1])
    return tmp_path / "installed"


def found(key, pack="one", target="a cpu", kind="object"):
    return load(pack, lambda: key, kind, target)


def test_entries_are_found_by_their_keys(directory):
    assert [found(key) for key in KEYS] == [entry.content for entry in ENTRIES]
    for unknown in ("00" * 32, "12" * 32, "ff" * 32):
        assert found(unknown) is None
    assert [path.name for path in packs(directory)] == ["one.pack"]


def test_an_empty_pack_has_nothing(directory):
    write_pack(directory, "empty", [])
    assert found(KEYS[0], pack="empty") is None


def test_nothing_is_said_of_packs_that_are_not_there(directory, monkeypatch):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert found(KEYS[0], pack="another") is None
        for place in (directory / "nowhere", directory / "one.pack", ""):
            monkeypatch.setenv("PYJAX_INSTALLED_DIR", str(place))
            assert found(KEYS[0]) is None


def test_by_default_packs_lie_in_the_package(monkeypatch):
    monkeypatch.delenv("PYJAX_INSTALLED_DIR", raising=False)
    package = os.path.dirname(os.path.dirname(installed.__file__))
    assert settings.installed_directory() == os.path.join(package, "installed")
    monkeypatch.setenv("PYJAX_INSTALLED_DIR", "")
    assert settings.installed_directory() is None


def test_others_may_own_and_read_them(directory):
    """They are as trusted as the sources beside them."""
    assert (directory / "one.pack").stat().st_mode & 0o444 == 0o444
    (directory / "one.pack").chmod(0o464)
    directory.chmod(0o555)
    try:
        assert found(KEYS[1]) == ENTRIES[1].content
    finally:
        directory.chmod(0o755)


@pytest.mark.parametrize("changes", [{"enabled": False}, {"internal": False}])
def test_options_of_the_cache_do_not_act_on_them(directory, changes):
    change_cache_settings(**changes)
    assert found(KEYS[2]) == ENTRIES[2].content
    assert not (directory.parent / "cache").exists()


def flip(data, place, bit=1):
    return data[:place] + bytes([data[place] ^ bit]) + data[place + 1 :]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: flip(data, len(data) - 1), "is damaged"),  # of the last entry
        (lambda data: data[:-1], "is damaged"),
        (lambda data: data[:-900], "is damaged"),
        (lambda data: flip(data, 0), "damaged"),
        (lambda data: data[:10], "damaged"),
        (lambda data: b"", "damaged"),
        (lambda data: data[: HEAD + RECORD], "damaged"),
        (lambda data: flip(data, 23), "no pack, or damaged"),  # the number of records
        (lambda data: flip(data, HEAD + 2 * RECORD + 33), "is"),  # where the last one is
        (lambda data: flip(data, HEAD + 2 * RECORD + 39, 0x80), "is damaged"),  # beyond any file
        (lambda data: flip(data, HEAD + 2 * RECORD + 47), "is damaged"),  # its size
        (lambda data: flip(data, HEAD + 2 * RECORD + 47, 0x80), "is damaged"),
    ],
)
def test_damaged_packs_are_not_used(directory, damage, message):
    path = directory / "one.pack"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.warns(RuntimeWarning, match=message):
        assert found(KEYS[2]) is None


def test_an_entry_that_lies_in_the_place_of_another_is_not_used(directory):
    path = directory / "one.pack"
    data = path.read_bytes()
    first, second = (data[HEAD + i * RECORD : HEAD + (i + 1) * RECORD] for i in range(2))
    path.write_bytes(data.replace(second, second[:32] + first[32:]))
    with pytest.warns(RuntimeWarning, match="holds the code of another program"):
        assert found(KEYS[1]) is None
    store._warned.clear()  # each kind of reason is said once
    with pytest.warns(RuntimeWarning, match="is for another processor"):
        assert found(KEYS[0], target="another cpu") is None


def test_damage_raises_where_the_settings_say_so(directory):
    change_cache_settings(raise_errors=True)
    path = directory / "one.pack"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(store.PersistentCacheError, match=r"one\.pack is damaged"):
        found(KEYS[2])


def test_a_pack_that_is_put_in_its_place_is_seen(directory):
    assert found(KEYS[0]) == ENTRIES[0].content
    write_pack(directory, "one", [ENTRIES[0]._replace(content=b"new"), ENTRIES[1]])
    assert found(KEYS[0]) == b"new" and found(KEYS[2]) is None


def test_what_a_known_pack_lacks_is_told_without_opening_it(directory, monkeypatch):
    assert found(KEYS[0]) is not None
    opened, open_file = [], os.open
    monkeypatch.setattr(os, "open", lambda *args: opened.append(args) or open_file(*args))
    assert found("12" * 32) is None and not opened
    other = Entry("12" * 32, "object", "a cpu", b"other")
    write_pack(directory, "one", [other])
    opened.clear()
    assert found("12" * 32) == b"other" and len(opened) == 1
    assert found(KEYS[0]) is None
    (directory / "one.pack").unlink()
    assert found("13" * 32) is None


def test_no_key_is_made_for_a_pack_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.setenv("PYJAX_INSTALLED_DIR", str(tmp_path))
    asked: list[str] = []

    def key() -> str:
        asked.append("")
        return store.entry_key("a")

    assert load("absent", key, "object", "cpu") is None and not asked
    write_pack(tmp_path, "there", [Entry(store.entry_key("a"), "object", "cpu", b"content")])
    assert load("there", key, "object", "cpu") == b"content" and asked
