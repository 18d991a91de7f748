"""A headless Chromium for tests, driven over the WebDriver protocol."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_START_SECONDS = 30.0


class BrowserError(Exception):
    """The browser could not do what it was asked for."""


class Browser:
    """One session. Errors of the page are kept by the browser until `errors` asks for them."""

    def __init__(self, session: str) -> None:
        self._session = session

    def open(self, address: str) -> None:
        _request("POST", f"{self._session}/url", {"url": address})

    def run(self, script: str, *arguments: Any) -> Any:
        """Result of a function body in the page: `return document.title`."""
        return _request(
            "POST", f"{self._session}/execute/sync", {"script": script, "args": list(arguments)}
        )

    def click(self, selector: str) -> None:
        """Click the first element of a CSS selector, as a mouse would."""
        found = _request(
            "POST", f"{self._session}/element", {"using": "css selector", "value": selector}
        )
        (element,) = found.values()
        _request("POST", f"{self._session}/element/{element}/click", {})

    def texts(self, selector: str) -> list[str]:
        """Text of every element of a CSS selector."""
        script = "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)"
        return self.run(script, selector)

    def errors(self) -> list[str]:
        """What went wrong in the page since the last call: exceptions, and files not found."""
        entries = _request("POST", f"{self._session}/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] == "SEVERE"]


@contextmanager
def open_browser() -> Iterator[Browser]:
    """A browser, or a skipped test where none is installed."""
    binary = next(filter(None, map(shutil.which, _NAMES)), None)
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("needs Chromium and chromedriver (Debian: chromium, chromium-driver)")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [driver, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            session = _start_session(f"http://127.0.0.1:{port}", binary, profile)
            yield Browser(session)
            _request("DELETE", session)
        finally:
            process.terminate()
            process.wait()


def _start_session(server: str, binary: str, profile: str) -> str:
    flags = ["--headless=new", "--no-sandbox", "--window-size=1500,900"]
    flags += ["--disable-gpu", f"--user-data-dir={profile}"]
    wanted = {
        "goog:chromeOptions": {"binary": binary, "args": flags},
        "goog:loggingPrefs": {"browser": "ALL"},
    }
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            body = {"capabilities": {"alwaysMatch": wanted}}
            return f"{server}/session/{_request('POST', f'{server}/session', body)['sessionId']}"
        except urllib.error.URLError:  # the driver does not listen yet
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _request(method: str, address: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        address, data, {"Content-Type": "application/json"}, method=method
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response)["value"]
    except urllib.error.HTTPError as error:
        raise BrowserError(json.load(error)["value"]["message"]) from None
