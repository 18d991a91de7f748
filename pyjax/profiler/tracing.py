"""start_trace, stop_trace, trace: from when to when, and where it is written. Layer: profiler."""

from __future__ import annotations

import functools
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from pyjax.core.errors import fail
from pyjax.profiler.formats import perfetto_trace, xspace
from pyjax.profiler.recorder import begin, end
from xla_backend.process.light_dataclasses import dataclass, field


@dataclass
class ProfileOptions:
    """What a trace records.

    Attributes:
      host_tracer_level: 0 leaves out passes and stages of compilation.
      python_tracer_level: 1 would record each call of a Python function; only 0 is there.
      session_id: the name of the folder of the trace; default the time.
      Others are known for programs that set them, and change nothing.

    >>> options = ProfileOptions(session_id="first")
    >>> options.host_tracer_level = 0
    """

    host_tracer_level: int = 2
    python_tracer_level: int = 0
    device_tracer_level: int = 1
    enable_hlo_proto: bool = True
    include_dataset_ops: bool = False
    raise_error_on_start_failure: bool = False
    start_timestamp_ns: int = 0
    duration_ms: int = 0
    repository_path: str = ""
    session_id: str = ""
    advanced_configuration: dict[str, Any] = field(default_factory=dict)


class _Wanted(NamedTuple):
    folder: Path
    perfetto_trace: bool
    perfetto_link: bool
    options: ProfileOptions


_wanted: list[_Wanted] = []


def start_trace(
    log_dir: str | os.PathLike[str],
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: ProfileOptions | None = None,
) -> None:
    """Record what happens until `stop_trace`: tracing, lowering, compilation with its passes, runs
    of programs by the names of their functions, and annotations.

    A run that goes on when its call is back has two spans: the call, and, on a track of its own,
    the run, which ends when the host notices.

    Args:
      log_dir: `stop_trace` writes to `plugins/profile/TIME` in it: `HOST.xplane.pb` for TensorBoard
        and `ProfileData`, `HOST.trace.json.gz` for Perfetto and Chrome.
      create_perfetto_link: serve the trace and print a link that opens it on ui.perfetto.dev;
        `stop_trace` then waits until it was opened.
      create_perfetto_trace: write `perfetto_trace.json.gz`, too.
      profiler_options: what is recorded.
    Raises:
      RuntimeError: a trace is on.
      NotImplementedError: an option that is not there.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pyjax.profiler.start_trace(folder)
    ...     y = pyjax.jit(jnp.sin)(jnp.ones(3)).block_until_ready()
    ...     pyjax.profiler.stop_trace()
    ...     os.listdir(folder)
    ['plugins']
    """
    options = profiler_options or ProfileOptions()
    if options.python_tracer_level:
        fail(
            NotImplementedError,
            f"python_tracer_level is {options.python_tracer_level}.",
            "calls of Python functions are not recorded",
            "Use annotate_function for those of interest, or cProfile.",
        )
    begin()
    _wanted.append(_Wanted(Path(log_dir), create_perfetto_trace, create_perfetto_link, options))


def stop_trace() -> None:
    """Stop recording, and write the trace.

    Raises:
      RuntimeError: no trace is on.

    >>> try:
    ...     pyjax.profiler.stop_trace()
    ... except RuntimeError as error:
    ...     print("No profile started" in str(error))
    True
    """
    recorder = end()
    folder, wants_trace, wants_link, options = _wanted.pop()
    if options.host_tracer_level == 0:
        recorder.spans = [s for s in recorder.spans if s.category in _ALWAYS]
    name = options.session_id or time.strftime("%Y_%m_%d_%H_%M_%S")
    target = folder / "plugins" / "profile" / name
    target.mkdir(parents=True, exist_ok=True)
    host = socket.gethostname()
    events = perfetto_trace(recorder)
    (target / f"{host}.trace.json.gz").write_bytes(events)
    (target / f"{host}.xplane.pb").write_bytes(xspace(recorder))
    if wants_trace or wants_link:
        (target / "perfetto_trace.json.gz").write_bytes(events)
    if wants_link:
        _serve_once(events)


_ALWAYS = ("annotation", "execute", "queue")


@contextmanager
def trace(
    log_dir: str | os.PathLike[str],
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: ProfileOptions | None = None,
) -> Iterator[None]:
    """Context manager: `start_trace` and `stop_trace`, with the same arguments.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with trace(folder):
    ...         pass
    ...     os.listdir(folder)
    ['plugins']
    """
    start_trace(log_dir, create_perfetto_link, create_perfetto_trace, profiler_options)
    try:
        yield
    finally:
        stop_trace()


_PORT = 9001  # one that ui.perfetto.dev is allowed to read from


class _Handler(BaseHTTPRequestHandler):
    """Gives the trace to the site that shows it, once."""

    def __init__(self, events: bytes, *args: Any) -> None:
        self._events = events
        super().__init__(*args)

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Access-Control-Allow-Origin", "https://ui.perfetto.dev")
        self.send_header("Content-Type", "application/gzip")
        self.end_headers()
        self.wfile.write(self._events)
        self.server.served = True  # type: ignore[attr-defined]

    def log_message(self, format: str, *args: Any) -> None:
        return None


def _serve_once(events: bytes) -> None:
    with HTTPServer(("127.0.0.1", _PORT), functools.partial(_Handler, events)) as server:
        link = f"https://ui.perfetto.dev/#!/?url=http://127.0.0.1:{_PORT}/perfetto_trace.json.gz"
        print(f"Open URL in browser: {link}", flush=True)
        server.served = False  # type: ignore[attr-defined]
        while True:
            if server.served:  # type: ignore[attr-defined]
                break
            server.handle_request()


def start_server(port: int, requires_backend: bool = True) -> None:
    """Let other processes ask this one for traces.

    Raises:
      NotImplementedError: always; write traces to files instead.

    >>> pyjax.profiler.start_server(9012)
    Traceback (most recent call last):
        ...
    NotImplementedError: profiler.start_server(9012)...
    """
    fail(
        NotImplementedError,
        f"profiler.start_server({port}).",
        "the protocol by which TensorBoard asks for traces is not there",
        "Write a trace: with profiler.trace(log_dir): ... TensorBoard and Perfetto open its files.",
    )


def stop_server() -> None:
    """End the server.

    Raises:
      ValueError: there is none.

    >>> pyjax.profiler.stop_server()
    Traceback (most recent call last):
        ...
    ValueError: No active profiler server.
    """
    raise ValueError("No active profiler server.")


def register_subprocess(pid: int, port: int) -> None:
    """Let a trace take in that of another process.

    Raises:
      NotImplementedError: always; trace both, and open both files in Perfetto.

    >>> pyjax.profiler.register_subprocess(1234, 9012)
    Traceback (most recent call last):
        ...
    NotImplementedError: profiler.register_subprocess(1234, 9012)...
    """
    fail(
        NotImplementedError,
        f"profiler.register_subprocess({pid}, {port}).",
        "processes do not ask each other for traces",
        "Write a trace in each process, and open both files.",
    )
