"""Cached object code that was cut off, overwritten, removed, exchanged for another program's, or
replaced by something that is no file: programs give right values all the same."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.stress import work

_PROGRAM = """
import random, sys
from tests.stress import work
draw = random.Random(int(sys.argv[1]))
for piece in (work.new_program, work.product, work.loop, work.first_call, work.gradient):
    piece(draw)
"""


_DAMAGES = ["cut", "noise", "remove", "empty", "exchange", "directory", "fifo", "link"]


def _damage(files: list[Path], draw: random.Random) -> None:
    for path in draw.sample(files, min(len(files), 4)):
        size = path.stat().st_size
        how = draw.choice(_DAMAGES)
        if how == "cut":
            os.truncate(path, draw.randrange(size + 1))
        elif how == "noise":
            with open(path, "r+b") as file:
                file.seek(draw.randrange(size + 1))
                file.write(draw.randbytes(64))
        elif how == "exchange":
            shutil.copyfile(draw.choice(files), str(path) + ".new")
            os.replace(str(path) + ".new", path)
        elif how == "empty":
            os.truncate(path, 0)
        else:
            path.unlink()
            if how == "directory":
                path.mkdir()
            elif how == "fifo":
                os.mkfifo(path)
            elif how == "link":
                path.symlink_to(draw.choice(files))


def main() -> None:
    seed, seconds = work.arguments()
    draw = random.Random(seed)
    cache = Path(os.environ["PYJAX_CACHE_DIR"])
    end = time.monotonic() + seconds
    rounds = 0
    while rounds < 2 or time.monotonic() < end:
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, str(seed)], capture_output=True, text=True, timeout=100
        )
        assert done.returncode == 0, f"round {rounds}: {done.returncode}\n{done.stderr}"
        files = [p for p in cache.rglob("*") if p.is_file()]
        assert files, "nothing was cached"
        _damage(files, draw)
        rounds += 1
    print(f"{rounds} processes")


if __name__ == "__main__":
    main()
