"""Loads exported programs and runs them: `python run_exported.py FOLDER`.

This process knows no function: FOLDER has `NAME.exported` and, pickled, `NAME.args`. What the
program gives is pickled into `NAME.result`, a gradient, where there is one, into `NAME.gradient`.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import numpy as np

import pyjax


def main(folder: Path) -> None:
    for file in sorted(folder.glob("*.exported")):
        exported = pyjax.export.deserialize(file.read_bytes())
        args = pickle.loads(file.with_suffix(".args").read_bytes())
        results = [np.asarray(x) for x in pyjax.tree.leaves(exported.call(*args))]
        file.with_suffix(".result").write_bytes(pickle.dumps(results))
        if exported.has_vjp():

            def total(*args: object, exported: pyjax.export.Exported = exported) -> pyjax.Array:
                leaves = pyjax.tree.leaves(exported.call(*args))
                return sum(x.sum() for x in leaves if x.dtype == "float32")

            gradient = pyjax.jit(pyjax.grad(total))(*args)
            file.with_suffix(".gradient").write_bytes(pickle.dumps(np.asarray(gradient)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
