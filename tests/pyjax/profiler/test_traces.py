"""Traces: which spans there are, in the files that viewers open; and profiles of memory."""

from __future__ import annotations

import gzip
import json
import threading
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import pyjax
from pyjax import numpy as jnp
from pyjax import profiler
from pyjax.profiler import tracing
from pyjax.profiler.formats import SCHEMA


@pyjax.jit
def doubled(x):
    return x * 2


@profiler.annotate_function
def loaded():
    return 3


def _only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(f"plugins/profile/*/{pattern}")
    return found


def _events(folder: Path, name: str = "*.trace.json.gz") -> list[dict]:
    with gzip.open(_only(folder, name)) as file:
        return [e for e in json.load(file)["traceEvents"] if e["ph"] == "X"]


def _spans(folder: Path, name: str = "*.trace.json.gz") -> dict[str, dict]:
    return {e["name"]: e for e in _events(folder, name)}


def test_spans(tmp_path: Path) -> None:
    def fresh(x):
        return jnp.sin(x) + 1

    x = jnp.arange(3.0)
    doubled(x)  # compiled before: its calls are seen all the same
    plain = doubled(x)
    with profiler.trace(tmp_path, create_perfetto_trace=True):
        assert profiler.TraceAnnotation.is_enabled()
        with profiler.TraceAnnotation("mine", rows=10):
            made = pyjax.jit(fresh)(x)
        with profiler.StepTraceAnnotation("train", step_num=3):
            assert loaded() == 3 and doubled(x).tolist() == plain.tolist()
    assert not profiler.TraceAnnotation.is_enabled()
    np.testing.assert_allclose(made, np.sin(x) + 1, rtol=1e-6)
    spans = _spans(tmp_path)
    assert spans == _spans(tmp_path, "perfetto_trace.json.gz")
    assert spans["mine"]["args"] == {"rows": "10"} and spans["train"]["args"]["step_num"] == "3"
    ran = [n for n in spans if n.startswith(("fresh at test_traces", "doubled at test_traces"))]
    assert len(ran) == 2 and all(spans[n]["cat"] == "execute" for n in ran)
    stages = {span["cat"]: span for span in spans.values()}
    assert stages.keys() >= {"trace", "lower", "compile", "annotation", "execute"}
    begin = spans["mine"]["ts"]
    end = begin + spans["mine"]["dur"]
    for name in ("trace fresh", "lower jit(fresh)", "compile jit(fresh)"):
        span = spans[name]
        assert begin - 5 <= span["ts"] <= span["ts"] + span["dur"] <= end + 5
    assert spans["loaded"]["cat"] == "annotation"
    # What comes later is not recorded, and calls are plain again.
    assert doubled(x).tolist() == plain.tolist()
    data = profiler.ProfileData.from_file(str(_only(tmp_path, "*.xplane.pb")))
    plane = data.find_plane_with_name("/host:CPU")
    assert plane is not None and data.find_plane_with_name("other") is None
    events = {e.name: e for line in plane.lines for e in line.events}
    assert events.keys() == spans.keys()
    mine = events["mine"]
    assert dict(mine.stats) == {"category": "annotation", "rows": 10}
    assert mine.duration_ns == pytest.approx(spans["mine"]["dur"] * 1e3, rel=1e-6)
    assert mine.end_ns == mine.start_ns + mine.duration_ns and dict(plane.stats) == {}


def test_passes_and_runs_that_go_on(tmp_path: Path) -> None:
    x = jnp.ones((600, 600))

    number = time.time_ns() % 1_000_003  # what is on disk goes through no passes

    def product(x):
        return x @ (x + number) @ x

    with profiler.trace(tmp_path):
        f = pyjax.jit(product).lower(x).compile()
        for _ in range(2):
            f(x).block_until_ready()
    spans = _events(tmp_path)
    calls = [e for e in spans if e["name"].startswith("product at test_traces")]
    assert [e["cat"] for e in calls].count("execute") == 2
    # One is long: its call comes back before, if nothing stands in the way.
    assert {e["cat"] for e in calls} <= {"execute", "queue"}
    passes = [e for e in spans if e["cat"] == "pass"]
    (compiled,) = [e for e in spans if e["name"] == "compile jit(product)"]
    end = compiled["ts"] + compiled["dur"] + 5
    assert passes and all(compiled["ts"] - 5 <= e["ts"] <= end for e in passes)


def test_programs_of_operations_have_names(tmp_path: Path) -> None:
    with profiler.trace(tmp_path):
        pyjax.lax.cbrt(jnp.arange(17.0))
    assert any("cbrt" in n for n, span in _spans(tmp_path).items() if span["cat"] == "execute")


def test_threads_have_tracks(tmp_path: Path) -> None:
    def work():
        with profiler.TraceAnnotation("there"):
            pass

    with profiler.trace(tmp_path, profiler_options=profiler.ProfileOptions(session_id="one")):
        with profiler.TraceAnnotation("here"):
            thread = threading.Thread(target=work, name="worker")
            thread.start()
            thread.join()
    spans = _spans(tmp_path)
    assert spans["here"]["tid"] != spans["there"]["tid"]
    with gzip.open(_only(tmp_path, "*.trace.json.gz")) as file:
        metadata = [e["args"] for e in json.load(file)["traceEvents"] if e["ph"] == "M"]
    assert {"name": "worker"} in metadata and (tmp_path / "plugins/profile/one").is_dir()


def test_annotations_nest_and_decorate(tmp_path: Path) -> None:
    @profiler.TraceAnnotation("recursive")
    def down(n):
        return 0 if n == 0 else 1 + down(n - 1)

    @profiler.StepTraceAnnotation("step", step_num=1)
    def step():
        raise KeyError("inside")

    with profiler.trace(tmp_path):
        assert down(3) == 3
        with pytest.raises(KeyError):
            step()
    assert _spans(tmp_path).keys() == {"recursive", "step"}
    with gzip.open(_only(tmp_path, "*.trace.json.gz")) as file:
        names = [e["name"] for e in json.load(file)["traceEvents"]]
    assert names.count("recursive") == 4 and down.__name__ == "down"


def test_options(tmp_path: Path) -> None:
    with profiler.trace(tmp_path, profiler_options=profiler.ProfileOptions(host_tracer_level=0)):
        pyjax.jit(lambda x: x - 3)(1.0)
    assert {span["cat"] for span in _spans(tmp_path).values()} == {"execute"}


def test_link(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    monkeypatch.setattr(tracing, "_PORT", 0)
    fetched: list = []
    made: list = []
    served = tracing.HTTPServer

    def server(address, handler):
        one = served(address, handler)
        port = one.server_address[1]
        made.append(one)

        def fetch():
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/trace") as answer:
                fetched.append((answer.headers["Access-Control-Allow-Origin"], answer.read()))

        thread = threading.Thread(target=fetch)
        thread.start()
        one.fetcher = thread
        return one

    monkeypatch.setattr(tracing, "HTTPServer", server)
    with profiler.trace(tmp_path, create_perfetto_link=True):
        pass
    made[0].fetcher.join()
    ((origin, events),) = fetched
    assert origin == "https://ui.perfetto.dev"
    assert events == _only(tmp_path, "perfetto_trace.json.gz").read_bytes()
    assert "https://ui.perfetto.dev/#!/?url=http://127.0.0.1" in capsys.readouterr().out


def test_one_at_a_time(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="No profile started"):
        profiler.stop_trace()
    profiler.start_trace(tmp_path)
    with pytest.raises(RuntimeError, match="already been started"):
        profiler.start_trace(tmp_path)
    profiler.stop_trace()
    for call, error, message in (
        (lambda: profiler.start_server(9999), NotImplementedError, "Write a trace"),
        (lambda: profiler.stop_server(), ValueError, "No active profiler server"),
        (lambda: profiler.register_subprocess(1, 2), NotImplementedError, "in each process"),
        (
            lambda: profiler.start_trace(
                tmp_path, profiler_options=profiler.ProfileOptions(python_tracer_level=1)
            ),
            NotImplementedError,
            "annotate_function",
        ),
    ):
        with pytest.raises(error, match=message):
            call()


def test_memory(tmp_path: Path) -> None:
    kept = jnp.ones((1234, 3))
    profiler.save_device_memory_profile(str(tmp_path / "memory.prof"))
    profile = SCHEMA.decode("Profile", gzip.decompress((tmp_path / "memory.prof").read_bytes()))
    texts = profile["string_table"]
    units = [(texts[t["type"]], texts[t["unit"]]) for t in profile["sample_type"]]
    assert units == [("allocations", "count"), ("space", "bytes")] and texts[0] == ""
    functions = {f["id"]: texts[f["name"]] for f in profile["function"]}
    names = {
        location["id"]: functions[location["line"][0]["function_id"]]
        for location in profile["location"]
    }
    found = {}
    for sample in profile["sample"]:
        labels = {texts[label["key"]]: texts[label["str"]] for label in sample["label"]}
        found[names[sample["location_id"][0]], labels["kind"]] = (sample["value"], labels["device"])
    (count, size), device = found["float32[1234,3]", "buffer"]
    assert count >= 1 and size == count * kept.nbytes and device == str(kept.device)
    with pytest.raises(RuntimeError, match="Unknown backend"):
        profiler.device_memory_profile("foo")
