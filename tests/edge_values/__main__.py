"""Prints how pyjax differs from the recorded results, known differences marked `known`.

    python -m tests.edge_values [--mode value] [--dtype float32] [--table linalg] [PATTERN]

PATTERN is a regular expression over case keys, such as `numpy.power`. Everything is run, slow or
not, unless `--fast` is given. The exit status is 1 if something differs that is not known.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from tests.edge_values.checks import MODES, check
from tests.edge_values.known_differences import known
from tests.edge_values.recorded import FOLDER
from tests.edge_values.rows import cases
from tests.edge_values.tables import TABLES


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pattern", nargs="?", default=".")
    parser.add_argument("--mode", choices=MODES, action="append")
    parser.add_argument("--dtype")
    parser.add_argument("--table", action="append", choices=list(TABLES))
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--recorded", type=Path, default=FOLDER, metavar="FOLDER")
    options = parser.parse_args()
    total = bad = 0
    for table in options.table or TABLES:
        for case in cases(TABLES[table]):
            if (options.fast and not case.fast) or options.dtype not in (None, case.dtype):
                continue
            if not re.search(options.pattern, case.key):
                continue
            for mode in options.mode or MODES:
                total += 1
                text = check(table, case, mode, options.recorded)
                if text:
                    mark = "known " if known(case.key, mode) else ""
                    bad += not mark
                    print(f"{mark}{case.key} [{mode}]: {text}", flush=True)
    print(f"{bad} of {total} differ and are not known")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
