"""How many threads computations use: what the process may use, then what the pool is set to."""

import subprocess
import sys
from pathlib import Path

import pytest

from xla_backend.runtime import host_threads
from xla_backend.runtime.host_threads import num_threads
from xla_backend.targets.cpu.routines import thread_pool

ROOT = Path(__file__).resolve().parents[3]


def test_the_pool_has_the_number():
    thread_pool.pool_library()
    before = num_threads()
    try:
        for threads in (3, 1):
            host_threads.set_num_threads(threads)
            assert num_threads() == threads
    finally:
        host_threads.set_num_threads(before)


WITHOUT_A_POOL = """
import sys
import numpy as np
import xla_backend
from xla_backend.hlo.parser import parse_module
from xla_backend.runtime import host_threads
from xla_backend.runtime.host_libraries import library_threads
from xla_backend.runtime.host_libraries.lent_threads import blas

module = parse_module('''HloModule m
ENTRY %main {
  %a = f32[1024,1024] parameter(0)
  ROOT %qr = (f32[1024,1024], f32[1024]) custom-call(%a), custom_call_target="lapack.geqrf"
}''')
seen = []
library_threads._lent.choose = seen.append
ones = np.ones((1024, 1024), np.float32)
packed, tau = xla_backend.compile(module, "interpreter").execute([ones])
assert abs(abs(packed[0, 0]) - 1024**0.5) < 1e-3
if blas().set is not None:
    assert seen == [host_threads.available_threads()], seen
loaded = [name for name in sys.modules if name.startswith("xla_backend.targets.cpu")]
assert not loaded, loaded
"""


def test_the_interpreter_calls_lapack_without_the_cpu_target():
    """Its large calls used to compile the thread pool, to ask for the number."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_A_POOL], capture_output=True, timeout=60, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize(
    "groups, files, quota",
    [
        ("0::/a/b", {"a/b/cpu.max": "max 100000", "a/cpu.max": "150000 100000"}, 1.5),
        ("0::/a", {"cpu.max": "200000 100000", "a/cpu.max": "300000 100000"}, 2.0),
        ("0::/outside", {"cpu.max": "50000 100000"}, 0.5),
        ("0::/a", {"a/cpu.max": "max 100000"}, None),
        (
            "3:cpu,cpuacct:/a",
            {"cpu/a/cpu.cfs_quota_us": "250000", "cpu/a/cpu.cfs_period_us": "100000"},
            2.5,
        ),
        (
            "3:cpu,cpuacct:/a",
            {"cpu/a/cpu.cfs_quota_us": "-1", "cpu/a/cpu.cfs_period_us": "100000"},
            None,
        ),
    ],
)
def test_quota_of_control_groups(monkeypatch, groups, files, quota):
    def lines(path):
        if str(path) == "/proc/self/cgroup":
            return [groups]
        text = files.get(str(path).removeprefix("/sys/fs/cgroup/"))
        return [] if text is None else [text]

    monkeypatch.setattr(host_threads, "_lines", lines)
    assert host_threads._container_quota() == quota
