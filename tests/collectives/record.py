"""Records what JAX makes of the rows. Needs JAX 0.10.2 and eight devices; the test does not.

    JAX_NUM_CPU_DEVICES=8 PYTHONPATH=. python tests/collectives/record.py [--all] [TEXT]

Only rows that are not recorded are run, or those that contain TEXT; rows that left the table leave
the file.
"""

from __future__ import annotations

import argparse

import jax

from tests.collectives.calls import MODELS
from tests.collectives.execute import Library, outcome
from tests.collectives.recorded import load, save
from tests.collectives.rows import ROWS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="run rows that are recorded, too")
    parser.add_argument("text", nargs="?", help="run rows with this in their key")
    options = parser.parse_args()
    library = Library(jax)
    known = {} if options.all else load()
    entries = {key: known[key] for key in ROWS if key in known}
    new = 0
    for key, row in ROWS.items():
        if key in entries and (options.text is None or options.text not in key):
            continue
        entries[key] = found = outcome(library, row)
        if "error" in found and row.call in MODELS:
            found["model"] = outcome(library, row, MODELS[row.call])
        new += 1
        if new % 100 == 0:
            print(new, key, flush=True)
            save(entries)
        if new % 1000 == 0:
            jax.clear_caches()
    save(entries)
    print(f"{len(entries)} rows, {new} of them run")


if __name__ == "__main__":
    main()
