"""Processes that end with the one that started them."""

import os
import subprocess
import sys

import pytest

SECONDS = 60

_PARENT = """
import multiprocessing, os, sys, time
from xla_backend.process.ending import end_after

def work():
    end_after(multiprocessing.parent_process().join)
    os.write(1, b"working\\n")
    time.sleep(1000)

if __name__ == "__main__":
    multiprocessing.get_context(sys.argv[1]).Process(target=work).start()
    time.sleep(1000)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="other signals there")
@pytest.mark.parametrize("how", ["spawn", "fork"])
@pytest.mark.parametrize("end", ["terminate", "kill"])
def test_a_worker_ends_with_its_parent(end, how, tmp_path):
    (tmp_path / "parent.py").write_text(_PARENT)
    command = [sys.executable, str(tmp_path / "parent.py"), how]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"working\n"
        getattr(process, end)()
        # There is more to read as long as anybody has the other end of the pipe.
        assert process.communicate(timeout=SECONDS)[0] == b""
