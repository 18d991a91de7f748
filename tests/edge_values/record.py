"""Runs the tables under the reference and records the results. Needs JAX; the tests do not.

    PYTHONPATH=. python tests/edge_values/record.py [--all] [--into FOLDER] [TABLE ...]

Run it from the root of the checkout with a Python that has `jax` (0.10.2), `ml_dtypes` and NumPy.
Only new cases and cases whose operands changed are run, unless `--all` is given; cases that left
the table leave the file. `make oracle` records anew into a folder of its own, and compares.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import jax

from tests.edge_values import execute
from tests.edge_values.recorded import FOLDER, checksum, load, save
from tests.edge_values.rows import Case, cases
from tests.edge_values.tables import TABLES


def entry(case: Case) -> dict[str, Any]:
    found: dict[str, Any] = {"operands": checksum(case), "value": execute.value(jax, case)}
    if "error" in found["value"]:
        return found
    found["trace"] = execute.traces(jax, case)
    if case.differentiated:
        found["vjp"] = execute.vjp(jax, case)
        if case.row.elementwise:
            found["jvp"] = execute.jvp(jax, case)
    return found


def record(table: str, folder: Path, everything: bool) -> None:
    old = {} if everything else load(table, folder)
    entries: dict[str, Any] = {}
    new = 0
    for case in cases(TABLES[table]):
        known = old.get(case.key)
        if known is None or known["operands"] != checksum(case):
            known = entry(case)
            new += 1
            if new % 2000 == 0:
                jax.clear_caches()
            if new % 100 == 0:
                print(table, new, case.key, flush=True)
                save(table, {**old, **entries}, folder)
        entries[case.key] = known
    save(table, entries, folder)
    print(f"{table}: {len(entries)} cases, {new} of them run")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="run cases that are recorded, too")
    parser.add_argument("--into", type=Path, default=FOLDER, metavar="FOLDER")
    parser.add_argument("tables", nargs="*", metavar="TABLE", choices=[*TABLES, []])
    options = parser.parse_args()
    print(f"JAX {jax.__version__}")
    for table in options.tables or TABLES:
        record(table, options.into, options.all)


if __name__ == "__main__":
    main()
