"""Object code on disk: found by its whole key, and only in files and directories of this user."""

import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import warnings

import pytest

from xla_backend.llvm import jit, object_cache, objects
from xla_backend.llvm.target import host_target, make_target

GOOD = "define i64 @twice(i64 %x) {\n  %y = add i64 %x, %x\n  ret i64 %y\n}\n"
OTHER = GOOD.replace("%x, %x", "%x, 77")
KEY = "ab" * 32
AS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PYJAX_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(object_cache, "_warned", set())
    return tmp_path / "cache"


def files(cache):
    return [p for p in cache.rglob("*") if p.is_file()]


def path_of(cache, key):
    return cache / "objects-2" / key[:2] / f"{key}.o"


def key_of(ir):
    return object_cache.object_key(ir, host_target(), 11)


def test_hit_gives_the_same_object(cache):
    first = objects.compile_object(GOOD, host_target(), cache=True)
    assert files(cache) == [path_of(cache, key_of(GOOD))]
    assert objects.compile_object(GOOD, host_target(), cache=True) == first
    assert object_cache.load(key_of(GOOD)) == first


def truncate(data):
    return data[:-7]


def flip(data):
    return data[:-5] + bytes([data[-5] ^ 1]) + data[-4:]


def other_version(data):
    return data.replace(b"pyjax-object-2", b"pyjax-object-9")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (truncate, "is damaged"),
        (flip, "is damaged"),
        (lambda data: data[:40], "code of another program"),
        (lambda data: b"", "is not object code"),
        (other_version, "is not object code of this version"),
        (lambda data: data + b"more", "is damaged"),
    ],
)
def test_damaged_files_are_not_used(cache, damage, message):
    good = objects.compile_object(GOOD, host_target(), cache=True)
    (path,) = files(cache)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.warns(RuntimeWarning, match=message):
        assert objects.compile_object(GOOD, host_target(), cache=True) == good
    assert object_cache.load(key_of(GOOD)) == good  # written anew


def test_code_of_another_function_is_not_run(cache):
    good = objects.compile_object(GOOD, host_target(), cache=True)
    objects.compile_object(OTHER, host_target(), cache=True)
    for key in (key_of(GOOD), "00" * 32):
        path_of(cache, key).parent.mkdir(exist_ok=True, mode=0o700)
        path_of(cache, key).write_bytes(path_of(cache, key_of(OTHER)).read_bytes())
    with pytest.warns(RuntimeWarning, match="code of another program") as caught:
        library = jit.compile_library(GOOD, cache=True)
        assert object_cache.load("00" * 32) is None
    assert len(caught) == 1, "each kind of reason is given once"
    assert library.function("twice", jit.ctypes.c_int64, jit.ctypes.c_int64)(5) == 10
    assert object_cache.load(key_of(GOOD)) == good


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
        found = object_cache.load(key_of(GOOD))
    assert found == good


def test_huge_file(cache, monkeypatch):
    objects.compile_object(GOOD, host_target(), cache=True)
    monkeypatch.setattr(object_cache, "_LARGEST_FILE", 100)
    with pytest.warns(RuntimeWarning, match="more than 100 bytes"):
        assert object_cache.load(key_of(GOOD)) is None


def test_everything_is_made_private(cache):
    os.umask(before := os.umask(0))
    try:
        os.umask(0)
        objects.compile_object(GOOD, host_target(), cache=True)
    finally:
        os.umask(before)
    path = path_of(cache, key_of(GOOD))
    modes = [stat.S_IMODE(p.stat().st_mode) for p in (cache, *path.parents[:2], path)]
    assert modes == [0o700, 0o700, 0o700, 0o600]


@pytest.mark.parametrize("level", ["directory", "objects-2", "folder", "file"])
@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_what_others_may_write_to_is_not_used(cache, level, mode):
    objects.compile_object(GOOD, host_target(), cache=True)
    path = path_of(cache, key_of(GOOD))
    place = {"directory": cache, "objects-2": path.parents[1], "folder": path.parent, "file": path}
    place[level].chmod(mode)
    object_cache._checked_objects.clear()
    pattern = f"may be written by others \\(mode {mode:o}; chmod go-w mends it\\)"
    with pytest.warns(RuntimeWarning, match=pattern):
        assert object_cache.load(key_of(GOOD)) is None
    assert object_cache.store(key_of(GOOD), b"data") is (level == "file")
    place[level].chmod(0o755 if level != "file" else 0o644)
    object_cache._checked_objects.clear()
    assert object_cache.load(key_of(GOOD)) is not None


@pytest.mark.skipif(not AS_ROOT, reason="only root gives files away")
@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_what_belongs_to_others_is_not_used(cache, level):
    objects.compile_object(GOOD, host_target(), cache=True)
    path = path_of(cache, key_of(GOOD))
    os.chown([path, *path.parents][level], 12345, -1)
    object_cache._checked_objects.clear()
    with pytest.warns(RuntimeWarning, match="belongs to user 12345, not to 0"):
        assert object_cache.load(key_of(GOOD)) is None


def test_key_depends_on_everything():
    target = host_target()
    other = make_target(target.triple, "x86-64-v3")
    keys = {
        object_cache.object_key(GOOD, target, 1),
        object_cache.object_key(GOOD + " ", target, 1),
        object_cache.object_key(GOOD, target, 2),
        object_cache.object_key(GOOD, other, 1),
    }
    assert len(keys) == 4


def test_a_file_instead_of_the_directory(cache):
    cache.write_text("")
    with pytest.warns(RuntimeWarning, match="is not a directory: nothing is kept on disk"):
        assert object_cache.store(KEY, b"data") is False
    assert object_cache.load(KEY) is None
    assert objects.compile_object(GOOD, host_target(), cache=True)


def test_a_directory_that_cannot_be_made(cache, monkeypatch):
    monkeypatch.setenv("PYJAX_CACHE_DIR", "/proc/nothing/here")
    with pytest.warns(RuntimeWarning, match="PYJAX_CACHE_DIR cannot be used"):
        assert object_cache.store(KEY, b"data") is False
    # A home without room for a cache is nothing to warn about.
    monkeypatch.delenv("PYJAX_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nothing/there")
    assert object_cache.store(KEY, b"data") is False and object_cache.load(KEY) is None


def test_read_only_directory(cache):
    if AS_ROOT:
        pytest.skip("root may write anywhere")
    assert object_cache.store(KEY, b"data")
    for folder in (path_of(cache, KEY).parent, path_of(cache, KEY).parents[1], cache):
        folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    assert object_cache.load(KEY) == b"data"
    assert object_cache.store(KEY, b"other") is False
    assert object_cache.load(KEY) == b"data"


def test_a_directory_that_goes_away(cache):
    assert object_cache.store(KEY, b"data")
    path = path_of(cache, KEY)
    path.unlink()
    for folder in (path.parent, path.parents[1], cache):
        folder.rmdir()
    assert object_cache.load(KEY) is None
    assert object_cache.store(KEY, b"again") and object_cache.load(KEY) == b"again"


def test_a_full_disk(cache, monkeypatch):
    assert object_cache.store(KEY, b"data")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert object_cache.store("ab" + "c" * 62, b"data") is False
    assert [p.name for p in files(cache)] == [f"{KEY}.o"]


def test_directory_choice(monkeypatch):
    monkeypatch.setenv("PYJAX_CACHE_DIR", "/somewhere")
    assert str(object_cache.cache_directory()) == "/somewhere"
    monkeypatch.setenv("PYJAX_CACHE_DIR", "relative")
    assert str(object_cache.cache_directory()) == os.path.abspath("relative")
    monkeypatch.delenv("PYJAX_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert str(object_cache.cache_directory()) == "/xdg/pyjax"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/me")
    assert str(object_cache.cache_directory()) == "/home/me/.cache/pyjax"
    monkeypatch.delenv("HOME")
    assert os.path.isabs(str(object_cache.cache_directory()))  # of the user database
    monkeypatch.setenv("HOME", "nowhere")
    assert object_cache.cache_directory() is None
    assert object_cache.load(KEY) is None and object_cache.store(KEY, b"data") is False


def test_keeps_what_was_used_last(cache, monkeypatch):
    monkeypatch.setattr(object_cache, "_FOLDER_BYTES", 1300)
    keys = ["ab" + f"{i:062x}" for i in range(3)]
    for age, key in zip((300, 200, 100), keys):
        assert object_cache.store(key, b"x" * 300)
        path = path_of(cache, key)
        os.utime(path, (path.stat().st_atime, path.stat().st_mtime - age))
    assert object_cache.load(keys[0]) is not None  # used again: now the newest
    assert object_cache.store("ab" + "f" * 62, b"y" * 300)
    kept = [object_cache.load(key) is not None for key in keys]
    assert kept == [True, False, True]


def test_processes_share_a_cache(tmp_path):
    """Writers and readers of one key at once: every reader sees a whole object or none."""
    program = (
        "from xla_backend.llvm import object_cache as c\n"
        "key, data = 'cd' * 32, bytes(range(256)) * 400\n"
        "for _ in range(150):\n"
        "    assert c.store(key, data)\n"
        "    assert c.load(key) == data\n"
    )
    environment = {**os.environ, "PYJAX_CACHE_DIR": str(tmp_path / "new")}
    running = [subprocess.Popen([sys.executable, "-c", program], env=environment) for _ in range(3)]
    assert [process.wait(60) for process in running] == [0, 0, 0]
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
    with pytest.warns(RuntimeWarning, match="PYJAX_CACHE_DIR=relative is relative to a working"):
        assert objects.compile_object(GOOD, host_target(), cache=True)


def test_a_directory_that_went_away_is_made_private_again(cache):
    assert object_cache.store(KEY, b"code")
    shutil.rmtree(cache)
    before = os.umask(0)
    try:
        assert object_cache.store(KEY, b"code")
    finally:
        os.umask(before)
    assert object_cache.load(KEY) == b"code"
    for folder in (cache, cache / "objects-2", path_of(cache, KEY).parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_directory_that_others_made_meanwhile_is_not_used(cache):
    assert object_cache.store(KEY, b"code")
    shutil.rmtree(cache)
    cache.mkdir()
    cache.chmod(0o777)
    assert not object_cache.store(KEY, b"code")
    assert not list(cache.iterdir())


def test_an_entry_that_is_a_directory_is_replaced_if_it_is_empty(cache):
    assert object_cache.store(KEY, b"code")
    path = path_of(cache, KEY)
    path.unlink()
    path.mkdir()
    assert object_cache.store(KEY, b"code")
    assert object_cache.load(KEY) == b"code"
    path.unlink()
    path.mkdir()
    (path / "something").touch()
    with pytest.warns(RuntimeWarning, match="is a directory that cannot be removed"):
        assert not object_cache.store(KEY, b"code")
    assert not object_cache.store(KEY, b"code")  # said once
    assert [p.name for p in path.parent.iterdir()] == [path.name]
