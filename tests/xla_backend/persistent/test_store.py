"""Entries on disk: found by their whole key, and only in files and directories of this user."""

import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import time
import warnings

import pytest

from xla_backend.llvm import jit, objects
from xla_backend.llvm.kept_code import text_key
from xla_backend.llvm.target import host_target, make_target
from xla_backend.persistent import settings, store
from xla_backend.persistent.entry_format import head_of, signed_entry
from xla_backend.persistent.settings import cache_directory, change_cache_settings

GOOD = "define i64 @twice(i64 %x) {\n  %y = add i64 %x, %x\n  ret i64 %y\n}\n"
OTHER = GOOD.replace("%x, %x", "%x, 77")
KEY = "ab" * 32
AS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PYJAX_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(store, "_warned", set())
    monkeypatch.setattr(settings, "_settings", settings.CacheSettings())
    return tmp_path / "cache"


def files(cache):
    """Those of object code."""
    return [p for p in cache.rglob("*.object") if p.is_file()]


def path_of(cache, key):
    return cache / "entries-1" / f"{key}.object"


def key_of(ir):
    return text_key(ir, host_target(), 1)


def load(key):
    return store.load(key, "object", host_target().key)


def keep(key, content):
    return store.store(key, "object", host_target().key, content)


def test_hit_gives_the_same_object(cache):
    first = objects.compile_object(GOOD, host_target(), cache=True)
    assert files(cache) == [path_of(cache, key_of(GOOD))]
    assert objects.compile_object(GOOD, host_target(), cache=True) == first
    assert load(key_of(GOOD)) == first


def truncate(data):
    return data[:-7]


def flip(data):
    return data[:-5] + bytes([data[-5] ^ 1]) + data[-4:]


def other_version(data):
    return data.replace(b"pyjax-entry-1", b"pyjax-entry-9")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (truncate, "is damaged"),
        (flip, "is damaged"),
        (lambda data: data[:40], "is damaged"),
        (lambda data: b"", "is not an entry"),
        (other_version, "is not an entry of this version"),
        (lambda data: data + b"more", "is damaged"),
    ],
)
def test_damaged_files_are_not_used(cache, damage, message):
    good = objects.compile_object(GOOD, host_target(), cache=True)
    (path,) = files(cache)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.warns(RuntimeWarning, match=message):
        assert objects.compile_object(GOOD, host_target(), cache=True) == good
    assert load(key_of(GOOD)) == good  # written anew


def test_code_of_another_function_is_not_run(cache):
    good = objects.compile_object(GOOD, host_target(), cache=True)
    objects.compile_object(OTHER, host_target(), cache=True)
    for key in (key_of(GOOD), "00" * 32):
        path_of(cache, key).write_bytes(path_of(cache, key_of(OTHER)).read_bytes())
    with pytest.warns(RuntimeWarning, match="code of another program") as caught:
        library = jit.compile_library(GOOD, cache=True)
        assert load("00" * 32) is None
    assert len(caught) == 1, "each kind of reason is given once"
    assert library.function("twice", jit.ctypes.c_int64, jit.ctypes.c_int64)(5) == 10
    assert load(key_of(GOOD)) == good


def make_fifo(path):
    os.mkfifo(path)


def make_link(path):
    target = path.with_suffix(".elsewhere")
    target.write_bytes(b"anything")
    path.symlink_to(target)


def make_link_to_device(path):
    path.symlink_to("/dev/zero")


def make_dangling_link(path):
    path.symlink_to(path.with_suffix(".nowhere"))


def make_directory(path):
    path.mkdir()


def make_socket(path):
    os.chdir(path.parent)  # names of sockets are short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path.name[:20])
    os.rename(path.name[:20], path.name)


def make_device(path):
    if not AS_ROOT:
        pytest.skip("only root makes devices")
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))
    except OSError:
        pytest.skip("no devices may be made here")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="POSIX files")
@pytest.mark.parametrize(
    "make",
    [
        make_fifo,
        make_link,
        make_link_to_device,
        make_dangling_link,
        make_directory,
        make_socket,
        make_device,
    ],
)
def test_what_is_no_file_is_not_opened_and_is_replaced(cache, make, monkeypatch):
    monkeypatch.chdir(cache.parent)
    good = objects.compile_object(GOOD, host_target(), cache=True)
    path = path_of(cache, key_of(GOOD))
    path.unlink()
    make(path)
    with pytest.warns(RuntimeWarning, match="is not a regular file|is a symbolic link"):
        assert objects.compile_object(GOOD, host_target(), cache=True) == good
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = load(key_of(GOOD))
    assert found == good


def test_huge_file(cache, monkeypatch):
    objects.compile_object(GOOD, host_target(), cache=True)
    monkeypatch.setattr(store, "_LARGEST", 100)
    with pytest.warns(RuntimeWarning, match="more than 100 bytes"):
        assert load(key_of(GOOD)) is None


def test_everything_is_made_private(cache):
    os.umask(before := os.umask(0))
    try:
        os.umask(0)
        objects.compile_object(GOOD, host_target(), cache=True)
    finally:
        os.umask(before)
    path = path_of(cache, key_of(GOOD))
    modes = [stat.S_IMODE(p.stat().st_mode) for p in (cache, path.parent, path, cache / "secret")]
    assert modes == [0o700, 0o700, 0o600, 0o600]


@pytest.mark.parametrize("level", ["directory", "folder", "file", "secret"])
@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_what_others_may_write_to_is_not_used(cache, level, mode):
    objects.compile_object(GOOD, host_target(), cache=True)
    path = path_of(cache, key_of(GOOD))
    place = {"directory": cache, "folder": path.parent, "file": path, "secret": cache / "secret"}
    place[level].chmod(mode)
    store._checked.clear()
    store._secrets.clear()
    pattern = f"may be written by others \\(mode {mode:o}; chmod go-w mends it\\)"
    with pytest.warns(RuntimeWarning, match=pattern):
        assert load(key_of(GOOD)) is None
    assert keep(key_of(GOOD), b"data") is (level == "file")
    place[level].chmod(0o644 if level in ("file", "secret") else 0o755)
    store._checked.clear()
    assert load(key_of(GOOD)) is not None


@pytest.mark.skipif(not AS_ROOT, reason="only root gives files away")
@pytest.mark.parametrize("level", [0, 1, 2])
def test_what_belongs_to_others_is_not_used(cache, level):
    objects.compile_object(GOOD, host_target(), cache=True)
    path = path_of(cache, key_of(GOOD))
    os.chown([path, *path.parents][level], 12345, -1)
    store._checked.clear()
    with pytest.warns(RuntimeWarning, match="belongs to user 12345, not to 0"):
        assert load(key_of(GOOD)) is None


def test_key_depends_on_everything():
    target = host_target()
    other = make_target(target.triple, "x86-64-v3")
    keys = {
        text_key(GOOD, target, 1),
        text_key(GOOD + " ", target, 1),
        text_key(GOOD, target, 2),
        text_key(GOOD, other, 1),
        text_key(GOOD, target, 1, jit=False),
    }
    assert len(keys) == 5
    assert store.entry_key("a", "bc") != store.entry_key("ab", "c")


def test_a_file_instead_of_the_directory(cache):
    cache.write_text("")
    with pytest.warns(RuntimeWarning, match="is not a directory: nothing is kept on disk"):
        assert keep(KEY, b"data") is False
    assert load(KEY) is None
    assert objects.compile_object(GOOD, host_target(), cache=True)


def test_a_directory_that_cannot_be_made(cache, monkeypatch):
    monkeypatch.setenv("PYJAX_CACHE_DIR", "/proc/nothing/here")
    with pytest.warns(RuntimeWarning, match="/proc/nothing/here cannot be used"):
        assert keep(KEY, b"data") is False
    # A home without room for a cache is nothing to warn about.
    monkeypatch.delenv("PYJAX_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nothing/there")
    assert keep(KEY, b"data") is False and load(KEY) is None


@pytest.mark.parametrize(
    "directory, why",
    [
        ("~nobody-of-that-name/cache", "Could not determine home directory"),
        ("/tmp/with\0in it", "embedded null"),
    ],
)
def test_a_directory_that_no_path_leads_to(cache, directory, why):
    change_cache_settings(directory=directory)
    with pytest.warns(RuntimeWarning, match=f"{why}.*: nothing is kept on disk"):
        assert keep(KEY, b"data") is False
    assert load(KEY) is None


def test_read_only_directory(cache):
    if AS_ROOT:
        pytest.skip("root may write anywhere")
    assert keep(KEY, b"data")
    for folder in (path_of(cache, KEY).parent, cache):
        folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    assert load(KEY) == b"data"
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        assert keep(KEY, b"other") is False
    assert load(KEY) == b"data"


def test_a_directory_that_goes_away(cache):
    assert keep(KEY, b"data")
    shutil.rmtree(cache)
    assert load(KEY) is None
    assert keep(KEY, b"again") and load(KEY) == b"again"


def test_a_full_disk(cache, monkeypatch):
    assert keep(KEY, b"data")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(RuntimeWarning, match="No space left on device.: it is not kept"):
        assert keep("ab" + "c" * 62, b"data") is False
    assert keep("ab" + "c" * 62, b"data") is False  # said once
    assert [p.name for p in (cache / "entries-1").iterdir()] == [f"{KEY}.object"]


def test_directory_choice(cache, monkeypatch):
    monkeypatch.setenv("PYJAX_CACHE_DIR", "/somewhere")
    assert str(cache_directory()) == "/somewhere"
    change_cache_settings(directory="/chosen")
    assert str(cache_directory()) == "/chosen"
    change_cache_settings(directory=None)
    monkeypatch.setenv("PYJAX_CACHE_DIR", "relative")
    assert str(cache_directory()) == os.path.abspath("relative")
    monkeypatch.delenv("PYJAX_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert str(cache_directory()) == "/xdg/pyjax"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/me")
    assert str(cache_directory()) == "/home/me/.cache/pyjax"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert str(cache_directory()) == "/home/me/Library/Caches/pyjax"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", "/local")
    assert str(cache_directory()) == "/local/pyjax"
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("HOME")
    assert os.path.isabs(str(cache_directory()))  # of the user database
    monkeypatch.setenv("HOME", "nowhere")
    assert cache_directory() is None
    assert load(KEY) is None and keep(KEY, b"data") is False


def test_keeps_what_was_used_last(cache):
    change_cache_settings(limit=4000)
    keys = [f"{i:064x}" for i in range(7)]
    for key in keys[:4]:
        assert keep(key, b"x" * 600)
    assert load(keys[0]) == b"x" * 600  # used again: now the newest
    assert keep(keys[4], b"y" * 600)
    kept = [load(key) is not None for key in keys[:5]]
    assert kept == [True, False, True, True, True]
    assert sum(p.stat().st_size for p in files(cache)) <= 4000
    assert not keep(keys[5], b"z" * 4000), "larger than all there may be"
    assert load(keys[4]) == b"y" * 600
    change_cache_settings(limit=None)
    assert all(keep(key, b"x" * 600) for key in keys)
    assert len(files(cache)) == 7


def test_what_others_wrote_counts(cache, monkeypatch):
    """What is noted is read again when this process has written a sixteenth of the limit."""
    change_cache_settings(limit=40_000)
    assert keep(KEY, b"x")
    with monkeypatch.context() as patch:
        patch.setattr(store, "_written", {})  # as another process would
        for i in range(17):
            assert keep(f"{i:064x}", b"x" * 2000)
    assert len(files(cache)) == 18
    for i in range(100, 105):
        assert keep(f"{i:064x}", b"x" * 600)
    assert sum(p.stat().st_size for p in files(cache)) <= 40_000


def test_entries_are_counted_by_one_process_a_day(cache, monkeypatch):
    looks = []
    look = store._files
    monkeypatch.setattr(store, "_files", lambda folder: looks.append(folder) or look(folder))

    def another_process_keeps(name):
        monkeypatch.setattr(store, "_written", {})
        before = len(looks)
        assert keep(name * 64, b"data")
        return len(looks) - before

    assert [another_process_keeps(name) for name in "abc"] == [1, 0, 0]
    sizes = cache / "sizes"
    assert store._noted_size(cache) == sum(p.stat().st_size for p in files(cache))
    good = sizes.read_bytes()
    old = (int(time.time()) - 100_000).to_bytes(8, "little") + good[8:]
    future = (int(time.time()) + 100_000).to_bytes(8, "little") + good[8:]
    for unusable in (b"", good[:8], good[:-3], old, future, good + b"\xff" * 8, bytes(1 << 21)):
        sizes.write_bytes(unusable)
        assert another_process_keeps("d") == 1
        assert another_process_keeps("d") == 0
    sizes.unlink()
    sizes.symlink_to("entries-1")
    assert another_process_keeps("d") == 1
    store.clear()
    assert not sizes.exists()


def test_what_ended_writers_left_behind_goes(cache):
    assert keep(KEY, b"data")
    for name, age in ((".new-old", 7200), (".new-young", 0)):
        path = cache / "entries-1" / name
        path.write_bytes(b"")
        os.utime(path, (time.time() - age, time.time() - age))
    (cache / "entries-1" / "README").write_bytes(b"somebody else's")
    assert store.clear() == 1
    left = sorted(p.name for p in (cache / "entries-1").iterdir())
    assert left == [".new-young", "README"]


def test_status_and_clear(cache):
    assert store.status() == (str(cache), True, 0, 0, {}, 0, 1 << 30)
    keep(KEY, b"data")
    store.store(KEY, "program", "any", b"more")
    load(KEY), load(KEY), load("00" * 32)
    size = sum(p.stat().st_size for p in (cache / "entries-1").iterdir())
    found = store.status()
    assert found == (str(cache), True, 2, size, {"object": 1, "program": 1}, 2, 1 << 30)
    assert store.clear() == 2
    assert store.status() == (str(cache), True, 0, 0, {}, 0, 1 << 30)
    change_cache_settings(enabled=False)
    assert store.status() == (None, False, 0, 0, {}, 0, 1 << 30)
    assert keep(KEY, b"data") is False and store.clear() == 0


def test_signature_needs_the_secret(cache):
    """A changed entry with a checksum that somebody computed anew, and one of another directory."""
    keep(KEY, b"good")
    path = path_of(cache, KEY)
    head = head_of(KEY, "object", host_target().key)
    path.write_bytes(signed_entry(b"x" * 32, head, b"evil"))
    with pytest.warns(RuntimeWarning, match="is damaged"):
        assert load(KEY) is None
    assert keep(KEY, b"good") and load(KEY) == b"good"
    # The secret of a directory that was made again meanwhile is read again.
    (cache / "secret").write_bytes(b"y" * 32)
    path.write_bytes(signed_entry(b"y" * 32, head, b"other"))
    assert load(KEY) == b"other"
    assert keep(KEY, b"good") and load(KEY) == b"good"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_bytes(b"short"), None),
        (lambda path: path.write_bytes(b"z" * 33), "secret has more than 32 bytes"),
        (lambda path: (path.rename(str(path) + "2"), path.symlink_to("secret2")), "symbolic link"),
    ],
)
def test_damaged_secret(cache, damage, message):
    keep(KEY, b"good")
    damage(cache / "secret")
    store._secrets.clear()
    with pytest.warns(RuntimeWarning, match=message or "is damaged"):
        assert load(KEY) is None
    assert keep(KEY, b"good") is (message is None)
    assert load(KEY) == (b"good" if message is None else None)


def test_other_processor(cache):
    store.store(KEY, "object", "riscv64 some-cpu", b"code")
    with pytest.warns(RuntimeWarning, match="is for another processor"):
        assert load(KEY) is None


def test_errors_instead_of_warnings(cache):
    keep(KEY, b"good")
    path_of(cache, KEY).write_bytes(b"noise")
    change_cache_settings(raise_errors=True)
    for _ in range(2):
        with pytest.raises(store.PersistentCacheError, match=r"(?s)not an entry.*option"):
            load(KEY)
    cache.chmod(0o777)
    store._checked.clear()
    with pytest.raises(store.PersistentCacheError, match="may be written by others"):
        keep(KEY, b"good")


def test_processes_share_a_cache(tmp_path):
    """Writers and readers of one key at once: every reader sees a whole object or none."""
    program = (
        "from xla_backend.persistent import store as s\n"
        "key, data = 'cd' * 32, bytes(range(256)) * 400\n"
        "for _ in range(150):\n"
        "    assert s.store(key, 'object', 'here', data)\n"
        "    assert s.load(key, 'object', 'here') == data\n"
    )
    environment = {**os.environ, "PYJAX_CACHE_DIR": str(tmp_path / "new")}
    running = [subprocess.Popen([sys.executable, "-c", program], env=environment) for _ in range(8)]
    assert [process.wait(100) for process in running] == [0] * 8
    assert len(files(tmp_path)) == 1


def test_kernel_groups_are_found_by_their_key(cache):
    """The other user of this cache: code of one group is not run as another's."""
    program = """
import warnings
from xla_backend.targets.cpu.routines.library import kernel_library
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    kernel_library()["pyjax_cumsum_f32"], kernel_library()["pyjax_sort_f32"]
print(*[str(w.message) for w in caught], sep="\\n")
"""

    def run():
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
        return done.stdout.decode().strip()

    assert run() == ""
    paths = files(cache)
    contents = [p.read_bytes() for p in paths]
    for path, content in zip(paths, contents[1:] + contents[:1]):
        path.write_bytes(content)
    assert re.fullmatch(".*code of another program.*", run())
    assert run() == ""


def test_a_relative_directory_when_the_working_directory_is_gone(cache, tmp_path, monkeypatch):
    """It was a FileNotFoundError, from whatever happened to compile."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setenv("PYJAX_CACHE_DIR", "relative")
    with pytest.warns(RuntimeWarning, match="cache directory relative is relative to a working"):
        assert objects.compile_object(GOOD, host_target(), cache=True)


def test_a_directory_that_went_away_is_made_private_again(cache):
    assert keep(KEY, b"code")
    shutil.rmtree(cache)
    before = os.umask(0)
    try:
        assert keep(KEY, b"code")
    finally:
        os.umask(before)
    assert load(KEY) == b"code"
    for folder in (cache, cache / "entries-1"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_directory_that_others_made_meanwhile_is_not_used(cache):
    assert keep(KEY, b"code")
    shutil.rmtree(cache)
    cache.mkdir()
    cache.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="may be written by others"):
        assert not keep(KEY, b"code")
    assert not list(cache.iterdir())


def test_an_entry_that_is_a_directory_is_replaced_if_it_is_empty(cache):
    assert keep(KEY, b"code")
    path = path_of(cache, KEY)
    path.unlink()
    path.mkdir()
    assert keep(KEY, b"code")
    assert load(KEY) == b"code"
    path.unlink()
    path.mkdir()
    (path / "something").touch()
    with pytest.warns(RuntimeWarning, match="is a directory that cannot be removed"):
        assert not keep(KEY, b"code")
    assert not keep(KEY, b"code")  # said once
    assert [p.name for p in path.parent.iterdir()] == [path.name]
