"""Ctrl-C. The corpus is one on which the command works for seconds after its first stage, in any build."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

import resemblance


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("interrupt") / "corpus"
    resemblance.generate(folder, documents=6000, words=60)
    return folder


@pytest.fixture
def long_job(corpus: Path, tmp_path: Path) -> dict[str, Any]:
    """Eighteen million comparisons, after signatures that are soon made."""
    return {
        "source": {"format": "parquet", "url": corpus, "id": "id", "text": "text"},
        "minhash": {"permutations": 16},
        "candidates": {"method": "all"},
        "output": {"url": tmp_path / "out"},
    }


class Screen:
    """Stands in for `sys.stderr`, and acts when the command says that its first stage is done."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act
        self.written = ""

    def write(self, text: str) -> int:
        self.written += text
        ended = any(said in self.written for said in (": done", ": taken over"))
        if ended and self._act is not None:
            act, self._act = self._act, None  # type: ignore[assignment]
            act()
        return len(text)

    def flush(self) -> None:
        pass


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The child processes that are started."""
    started: list[subprocess.Popen[bytes]] = []

    class Popen(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Popen)
    yield started


def test_ctrl_c_stops_the_command_in_order_and_the_next_run_goes_on(
    long_job: dict[str, Any], children: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for first_line in ("sketches: done ", "sketches: taken over from an earlier run "):
            screen = Screen(lambda: signal.raise_signal(signal.SIGINT))
            monkeypatch.setattr(sys, "stderr", screen)
            with pytest.raises(KeyboardInterrupt) as raised:
                resemblance.run(long_job, progress=True)
            # It had begun, and it was stopped: the exit code is that of an orderly end, with its message.
            assert first_line in screen.written, screen.written
            assert [child.returncode for child in children] == [130]
            cause = raised.value.__cause__
            assert isinstance(cause, resemblance.Interrupted) and cause.exit_code == 130
            assert cause.message.startswith("stopped; run the same command again to continue")
            children.clear()
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_command_that_somebody_else_stops_is_interrupted(
    long_job: dict[str, Any], children: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", Screen(lambda: children[0].send_signal(signal.SIGINT)))
    with pytest.raises(resemblance.Interrupted, match="stopped; run the same command again") as raised:
        resemblance.run(long_job, progress=True)
    assert (raised.value.exit_code, children[0].returncode) == (130, 130)


def test_any_other_exception_stops_the_command_too(
    long_job: dict[str, Any], children: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def leave() -> None:
        raise SystemExit(7)

    monkeypatch.setattr(sys, "stderr", Screen(leave))
    with pytest.raises(SystemExit):
        resemblance.run(long_job, progress=True)
    assert [child.returncode for child in children] == [130]


def test_a_signal_to_the_whole_group_is_one_signal_to_the_command(long_job: dict[str, Any]) -> None:
    """As a terminal and a notebook send it. A second one would end the command at once, without a message."""
    script = """
        import signal, sys
        import resemblance
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            resemblance.run(JOB, progress=True)
        except KeyboardInterrupt as interrupt:
            print(type(interrupt.__cause__).__name__, interrupt.__cause__, flush=True)
            sys.exit(0)
        sys.exit("it was not stopped")
    """
    plain = {
        name: {key: str(v) if isinstance(v, Path) else v for key, v in of.items()} for name, of in long_job.items()
    }
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script).replace("JOB", repr(plain))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(Path(resemblance.__file__).parents[1])},
    )
    assert child.stderr is not None
    begun, first = child.stderr.readline(), child.stderr.readline()
    os.killpg(child.pid, signal.SIGINT)
    out, err = child.communicate()
    assert begun.startswith("sketches: begins ") and first.startswith("sketches: done "), begun + first + err
    assert child.returncode == 0, err
    assert out.startswith("Interrupted stopped; run the same command again"), out


def test_ctrl_c_twice_ends_the_command_at_once(
    stand_in: Callable[[str], Path], children: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command may be slow to end in order, as where a store does not answer."""
    stand_in(
        """
        import signal, sys, threading
        signals = []
        def interrupted(*_):
            signals.append(1)
            print("signal", len(signals), file=sys.stderr, flush=True)
            if len(signals) == 2:
                sys.exit(130)
        signal.signal(signal.SIGINT, interrupted)
        print("ready", file=sys.stderr, flush=True)
        while True:
            signal.pause()
        """
    )
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    screen = Screen(lambda: None)

    def write(text: str) -> int:
        screen.written += text
        if text in ("ready", "signal 1"):
            signal.raise_signal(signal.SIGINT)
        return len(text)

    monkeypatch.setattr(screen, "write", write)
    monkeypatch.setattr(sys, "stderr", screen)
    try:
        with pytest.raises(KeyboardInterrupt):
            resemblance.find("a.txt")
    finally:
        signal.signal(signal.SIGINT, before)
    assert children[0].returncode == 130
    assert "signal 2" in screen.written


def test_a_call_in_a_thread_stays_in_the_group_of_its_process(
    stand_in: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread gets no KeyboardInterrupt: there the terminal's signal must reach the command itself."""
    stand_in("import json, os; print(json.dumps({'id_a': os.getpgid(0), 'id_b': 0}))")
    groups: list[Any] = []
    thread = threading.Thread(target=lambda: groups.append(resemblance.sql("out", "q")[0]["id_a"]))
    thread.start()
    thread.join()
    groups.append(resemblance.sql("out", "q")[0]["id_a"])
    assert groups[0] == os.getpgid(0) != groups[1]
