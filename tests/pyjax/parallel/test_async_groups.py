"""Programs over devices that go on while their callers do."""

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parent / "async_groups.py"


def test_programs_go_on_while_their_callers_do():
    done = subprocess.run(
        # From 3.12 on a fork beside threads is warned of.
        [sys.executable, "-X", "faulthandler", "-W", "ignore::DeprecationWarning", str(PROGRAM)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
