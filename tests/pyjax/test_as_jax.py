"""`import jax` means pyjax: public modules, private ones of the table, and what is neither."""

from __future__ import annotations

import importlib
import importlib.metadata
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import pyjax
from pyjax.tools.as_jax import as_jax
from pyjax.tools.as_jax.private_names import ATTRIBUTES, PRIVATE


@pytest.fixture(autouse=True)
def alias():
    with as_jax():
        yield


def test_public_modules_are_the_same_objects() -> None:
    import jax  # type: ignore[import-not-found]
    import jax.numpy as jnp  # type: ignore[import-not-found]
    from jax import lax, nn  # type: ignore[import-not-found]
    from jax.scipy import special  # type: ignore[import-not-found]

    assert (jnp, lax, nn) == (pyjax.numpy, pyjax.lax, pyjax.nn)
    assert special is importlib.import_module("pyjax.scipy.special")
    assert jax.jit is pyjax.jit and jax.Array is pyjax.Array and jax.config is pyjax.config
    assert jax.__version__ == jax.version.__version__ == importlib.metadata.version("jax")
    assert tuple(int(n) for n in jax.__version__.split(".")) == jax.__version_info__
    assert {"jit", "numpy", "tree", "__version__"} <= set(dir(jax))


@pytest.mark.parametrize("name", PRIVATE)
def test_names_of_private_modules_are_there(name: str) -> None:
    module = importlib.import_module(name)
    assert isinstance(module, ModuleType) and module.__name__ == name
    for public in PRIVATE[name].public:
        importlib.import_module(public)
    for attribute in PRIVATE[name].names:
        getattr(module, attribute)
    assert set(PRIVATE[name].names) <= set(dir(module))


def test_private_modules_of_public_packages() -> None:
    import jax.experimental.colocated_python as public
    from jax.experimental.array_serialization import serialization
    from jax.experimental.colocated_python import func
    from jax.extend import ifrt_programs

    assert public is importlib.import_module("pyjax.experimental.colocated_python")
    assert not isinstance(3, serialization.GlobalAsyncCheckpointManagerBase)
    assert func.__name__ == "jax.experimental.colocated_python.func"
    with pytest.raises(AttributeError, match="pyjax stands in for JAX"):
        ifrt_programs.ifrt_programs.make_plugin_program("f")


def test_private_modules_leave_nothing_behind(tmp_path: Path) -> None:
    program = (
        "import pyjax.experimental as e, pyjax.extend as x\n"
        "from pyjax.tools.as_jax import as_jax\n"
        "for _ in range(2):\n"
        "    with as_jax():\n"
        "        from jax.experimental import array_serialization\n"
        "        from jax.extend import ifrt_programs\n"
        "        import jax.experimental.colocated_python.func\n"
        "print(hasattr(e, 'array_serialization'), hasattr(x, 'ifrt_programs'))"
    )
    assert _run("-c", program, cwd=tmp_path) == "False False\n"


def test_private_attributes_of_objects() -> None:
    devices = tuple(pyjax.devices()[:1])
    mesh = pyjax.make_mesh((1,), ("x",), devices=devices)
    for sharding in (
        pyjax.sharding.SingleDeviceSharding(devices[0]),
        pyjax.sharding.NamedSharding(mesh, pyjax.sharding.PartitionSpec("x")),
    ):
        got = [getattr(sharding, name) for name in ATTRIBUTES[pyjax.sharding.Sharding]]
        assert got == [devices, devices]


def test_private_names_are_found_without_an_import() -> None:
    import jax

    assert jax._src.core.ShapedArray is importlib.import_module("pyjax.core").ShapedArray
    assert jax._src.tree_util.tree_map is pyjax.tree.map
    assert jax._src.distributed.global_state.process_id == 0
    parallel = jax._src.lax.parallel
    lanes = pyjax.vmap(lambda x: parallel.all_gather_invariant(x, "i"), axis_name="i")
    assert lanes(pyjax.numpy.arange(2)).tolist() == [[0, 1], [0, 1]]
    assert parallel.preduced_p.name == "preduced" and parallel.unreduced_psum is pyjax.lax.psum


@pytest.mark.parametrize(
    ("code", "error", "says"),
    [
        ("import jax.abacus", ModuleNotFoundError, r"jax\.abacus"),
        ("import jax; jax.abacus", AttributeError, "module 'jax' has no attribute 'abacus'"),
        ("import jax._src.abacus", ModuleNotFoundError, "were seen to use"),
        ("import jax._src.vmap", ModuleNotFoundError, r"public name instead: jax\.vmap"),
        ("from jax._src import abacus", ImportError, "were seen to use"),
        ("from jax._src.core import abacus", ImportError, "were seen to use"),
        ("import jax; jax._src.core._abacus", AttributeError, "'jax._src.core' has no"),
        ("import jax; jax._src.api._vmap", AttributeError, r"public name instead: jax\.vmap"),
        ("import jaxlib.abacus", ModuleNotFoundError, "jaxlib.abacus"),
    ],
)
def test_unknown_names(code: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        exec(code)


def test_what_was_imported_before_comes_back() -> None:
    before = sys.modules.get("jax")
    with as_jax():
        import jax.numpy  # noqa: F401
    assert sys.modules.get("jax") is before


def _run(*words: str, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, timeout=120, cwd=cwd
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_as_a_command_a_module_and_a_plugin(tmp_path: Path) -> None:
    program = tmp_path / "test_program.py"
    program.write_text(
        "import sys\nimport jax, jax.numpy as jnp\n"
        "def test(): assert jax.grad(jnp.sin)(0.0) == 1\n"
        "if __name__ == '__main__': print(jnp.arange(3).dtype, sys.argv[1:])\n"
    )
    flags = ("--jax_enable_x64", str(program), "--n", "3")
    assert _run("-m", "pyjax.as_jax", *flags, cwd=tmp_path) == "int64 ['--n', '3']\n"
    assert _run("-m", "pyjax.as_jax", "-m", "test_program", cwd=tmp_path) == "int32 []\n"
    imported = "import pyjax.as_jax, jax; print(jax.numpy.__name__)"
    assert _run("-c", imported, cwd=tmp_path) == "pyjax.numpy\n"
    words = ("-m", "pytest", "-q", "-p", "pyjax.as_jax", "-p", "no:cacheprovider", str(program))
    assert "1 passed" in _run(*words, cwd=tmp_path)


def test_what_programs_set_up_before_imports(tmp_path: Path) -> None:
    """SciPy reads `SCIPY_ARRAY_API` when it is imported: that is the program's to do."""
    program = tmp_path / "program.py"
    program.write_text("import sys, jax.numpy\nprint('scipy' in sys.modules)\n")
    for words in (("pyjax.as_jax",), ("pyjax", "run")):
        assert _run("-m", *words, str(program), cwd=tmp_path) == "False\n"


def test_jax_that_was_imported_before_is_no_place_for_an_alias(tmp_path: Path) -> None:
    (tmp_path / "jax.py").write_text("")
    code = "import jax\ntry: import pyjax.as_jax\nexcept ImportError as error: print(error)"
    assert "above the first import of jax" in _run("-c", code, cwd=tmp_path)
