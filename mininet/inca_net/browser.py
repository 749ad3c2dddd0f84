"""Drives a headless Chromium over its DevTools protocol, by a pair of pipes: no driver program, no port.

https://chromedevtools.github.io/devtools-protocol/; messages are JSON, each ends with a zero byte.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from fnmatch import fnmatch
from pathlib import Path
from types import TracebackType
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
# Seconds for one answer, or for something to show.
PATIENCE = 30.0


class BrowserError(Exception):
    """The browser ended, did not answer, or refused a command."""


def find_browser() -> str | None:
    """The browser's program; None if there is none."""
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


class Browser:
    """A browser with one page. Keeps what the page asked for, and what it complained of."""

    def __init__(self, width: int = 1440, height: int = 900) -> None:
        program = find_browser()
        if program is None:
            raise BrowserError("chromium not found: apt-get install chromium")
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self._answers: dict[str, str] = {}
        self.profile = tempfile.TemporaryDirectory(prefix="inca-browser-")
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        argv = [program, "--headless", "--remote-debugging-pipe", f"--user-data-dir={self.profile.name}"]
        # As root, in an emulation's namespaces, it can't make those of its own sandbox; it sees nothing but our page.
        argv += ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions"]
        argv += ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-proxy-server"]
        argv += [f"--window-size={width},{height}", "about:blank"]
        # Clear of those that it shall have.
        theirs = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (to_browser, from_browser)]

        def ends() -> None:
            # It reads file descriptor 3 and writes 4.
            os.dup2(theirs[0], 3)
            os.dup2(theirs[1], 4)

        self.process = subprocess.Popen(
            argv,
            preexec_fn=ends,
            # All others of ours are closed by themselves.
            close_fds=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "HOME": self.profile.name},
        )
        for end in (to_browser, from_browser, *theirs):
            os.close(end)
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        pages = self.command("Target.getTargets")["targetInfos"]
        target = next(info["targetId"] for info in pages if info["type"] == "page")
        self._session = self.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.command(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the browser and everything it started."""
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for end in (self._read, self._write):
            os.close(end)
        self.profile.cleanup()

    def open(self, address: str) -> None:
        """Loads a page; what was noted of the one before is forgotten."""
        self.requests.clear()
        self.complaints.clear()
        self.command("Page.navigate", url=address)
        self.until("document.readyState === 'complete'")

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page; promises are awaited."""
        answer = self.command("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise BrowserError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def until(self, expression: str, patience: float = PATIENCE) -> Any:
        """Waits until an expression is true; returns its value."""
        end = time.monotonic() + patience
        while True:
            value = self.evaluate(expression)
            if value:
                return value
            if time.monotonic() > end:
                raise BrowserError(f"not within {patience} s: {expression}; complaints: {self.complaints}")
            time.sleep(0.05)

    def key(self, key: str) -> None:
        """Presses a key, and lets it go."""
        text = {"text": "\r"} if key == "Enter" else {"text": key} if len(key) == 1 else {}
        code = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        more = {"windowsVirtualKeyCode": code[key]} if key in code else {}
        self.command("Input.dispatchKeyEvent", type="keyDown", key=key, **text, **more)
        self.command("Input.dispatchKeyEvent", type="keyUp", key=key, **more)

    def prefer(self, scheme: str) -> None:
        """Has the page see a preference for `light` or `dark`."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.command("Emulation.setEmulatedMedia", features=features)

    def answer(self, answers: dict[str, str]) -> None:
        """Has requests of these addresses (with `*`) answered with these JSON documents, without asking anybody."""
        self._answers = answers
        self.command("Fetch.enable", patterns=[{"urlPattern": pattern} for pattern in answers])

    def screenshot(self, path: Path) -> None:
        """Writes what the page looks like, as PNG."""
        path.write_bytes(base64.b64decode(self.command("Page.captureScreenshot", format="png")["data"]))

    def command(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Sends a command and returns its result; events that come meanwhile are noted."""
        number = self._send(method, parameters)
        end = time.monotonic() + PATIENCE
        while True:
            received = self._receive(method, end)
            if received.get("id") == number:
                if "error" in received:
                    raise BrowserError(f"{method}: {received['error']}")
                result: dict[str, Any] = received["result"]
                return result
            self._note(received)

    def _send(self, method: str, parameters: dict[str, Any]) -> int:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data) :]
        return self._number

    def _receive(self, what: str, end: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise BrowserError(f"the browser did not answer {what} within {PATIENCE} s")
            data = os.read(self._read, 1 << 16)
            if not data:
                raise BrowserError(f"the browser ended at {what}, exit code {self.process.wait()}")
            self._rest += data
        text, self._rest = self._rest.split(b"\0", 1)
        message: dict[str, Any] = json.loads(text)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        parameters = message.get("params", {})
        match message.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])
            case "Runtime.exceptionThrown":
                self.complaints.append(str(parameters["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if parameters["type"] in ("error", "warning", "assert"):
                self.complaints.append(str(parameters["args"]))
            case "Log.entryAdded" if parameters["entry"]["level"] in ("error", "warning"):
                self.complaints.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")
            case "Fetch.requestPaused":
                address = parameters["request"]["url"]
                text = next(text for pattern, text in self._answers.items() if fnmatch(address, pattern))
                answer = {"requestId": parameters["requestId"], "responseCode": 200}
                head = [{"name": "content-type", "value": "application/json"}]
                body = base64.b64encode(text.encode()).decode()
                self._send("Fetch.fulfillRequest", {**answer, "responseHeaders": head, "body": body})
