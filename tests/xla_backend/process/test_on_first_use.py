"""Modules that are loaded when somebody needs them, by several threads."""

import subprocess
import sys
import textwrap


def _run(code, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        capture_output=True,
        timeout=200,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_one_who_is_importing_does_not_wait_for_one_who_waits_for_that_module(tmp_path):
    (tmp_path / "first.py").write_text(
        "import threading\n"
        "from xla_backend.process.on_first_use import import_now\n"
        "begun, go_on = threading.Event(), threading.Event()\n"
        "import rendezvous\n"
        "rendezvous.first_begun.set()\n"
        "assert rendezvous.lock_taken.wait(60)\n"
        "third = import_now('third')\n"
    )
    (tmp_path / "second.py").write_text(
        "import rendezvous\nrendezvous.lock_taken.set()\nimport first\n"
    )
    (tmp_path / "third.py").write_text("")
    (tmp_path / "rendezvous.py").write_text(
        "import threading\nfirst_begun, lock_taken = threading.Event(), threading.Event()\n"
    )
    _run(
        """
        import faulthandler, sys, threading
        faulthandler.dump_traceback_later(60, exit=True)
        sys.path.insert(0, sys.argv[1])
        import rendezvous
        from xla_backend.process.on_first_use import import_now

        def plainly():
            import first

        thread = threading.Thread(target=plainly)
        thread.start()
        assert rendezvous.first_begun.wait(60)
        assert import_now("second").first.third.__name__ == "third"
        thread.join()
        """,
        str(tmp_path),
    )


def test_a_module_that_is_half_there_is_not_given_to_other_threads(tmp_path):
    """It asks for itself in the middle of its import."""
    (tmp_path / "itself.py").write_text(
        "import rendezvous\n"
        "from xla_backend.process.on_first_use import import_now\n"
        "import_now('itself')\n"
        "rendezvous.begun.set()\n"
        "rendezvous.asked.wait(1)\n"
        "whole = True\n"
    )
    (tmp_path / "rendezvous.py").write_text(
        "import threading\nbegun, asked = threading.Event(), threading.Event()\n"
    )
    _run(
        """
        import sys, threading
        sys.path.insert(0, sys.argv[1])
        import rendezvous
        from xla_backend.process.on_first_use import import_now

        threading.Thread(target=import_now, args=("itself",)).start()
        assert rendezvous.begun.wait(60)
        assert import_now("itself").whole
        """,
        str(tmp_path),
    )


def test_first_calls_of_several_kinds_on_several_threads():
    _run("""
        from tests.threads import together
        import pyjax
        import pyjax.numpy as jnp

        together(
            lambda: jnp.linalg.norm(jnp.ones(4)),
            lambda: jnp.ones(3) + 1,
            lambda: pyjax.scipy.special.gammaln(3.0),
            lambda: pyjax.random.key(3),
            lambda: pyjax.nn.relu(1.0),
            lambda: pyjax.jit(lambda x: x * 2)(3.0),
            lambda: pyjax.lax.add(1, 2),
        )
        """)
