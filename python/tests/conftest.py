"""What the tests share: the command under test, the documents of the quickstart, and stand-ins for the command."""

from __future__ import annotations

import importlib
import importlib.util
import os
import stat
import sys
import textwrap
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Callable, Iterator, NoReturn

import pytest

import resemblance

REPOSITORY = Path(__file__).resolve().parents[2]
DOCUMENTS = REPOSITORY / "jobs" / "quickstart"


def pytest_report_header() -> str:
    try:
        return f"command under test: {resemblance.command()}"
    except resemblance.CommandNotFound as error:
        return f"command under test: none: {error}"


def example_of(heading: str) -> str:
    """The first example in Python below a heading of docs/scheduling.md."""
    page = (REPOSITORY / "docs" / "scheduling.md").read_text(encoding="utf-8")
    return page.split(f"\n## {heading}\n", 1)[1].split("```python\n", 1)[1].split("```", 1)[0]


def needs(module: str) -> Any:
    """The module `module`, which `.ci/python` installs; without it the test is skipped, or fails if it is strict."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        missing(f"{module} cannot be imported ({error})", expected=True)


def needs_environment(name: str) -> None:
    """Skips the tests of a module unless they run in the environment that `.ci/python` makes for the package `name`."""
    if importlib.util.find_spec(name) is None:
        missing(
            f"{name} is not installed here: .ci/python runs this file in the environment {name}",
            expected=Path(sys.prefix).name == name,
        )


class Collector:
    """A server that keeps what it is sent: path, content type and body."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, bytes]] = []
        sent = self.sent

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                sent.append((self.path, self.headers["Content-Type"], body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def end(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """A collector on this machine. A proxy of the environment is not used."""
    monkeypatch.delenv("HTTP_PROXY", raising=False)
    monkeypatch.delenv("http_proxy", raising=False)
    collector = Collector()
    try:
        yield collector
    finally:
        collector.end()


def missing(what: str, *, expected: bool = False) -> NoReturn:
    """
    Reports what the test lacks and skips it. With `RESEMBLANCE_STRICT=1` the test fails if `.ci/python` installs what is
    missing (`expected`).
    """
    if expected and os.environ.get("RESEMBLANCE_STRICT") == "1":
        pytest.fail(f"missing, and RESEMBLANCE_STRICT=1: {what}", pytrace=False)
    pytest.skip(f"missing: {what}", allow_module_level=True)


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths in the repository's jobs start there."""
    monkeypatch.chdir(REPOSITORY)


@pytest.fixture(scope="session")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> resemblance.Run:
    """The quickstart's job, run once for all tests that read its result."""
    output = tmp_path_factory.mktemp("quickstart") / "out"
    job = REPOSITORY / "jobs" / "quickstart.toml"
    return resemblance.run(job, source__url=f"{DOCUMENTS}/*.txt", output__url=output, run_id="of-the-tests")


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Puts a Python script in the command's place, for ends that the command itself cannot be brought to."""

    def put(script: str) -> Path:
        path = tmp_path / "resemblance"
        path.write_text(f"#!{sys.executable}\n{textwrap.dedent(script)}")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("RESEMBLANCE_BIN", os.fspath(path))
        return path

    return put
