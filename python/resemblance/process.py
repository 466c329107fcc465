"""The command as a child process: its results, its progress, its errors, and its end after Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from typing import IO, Optional, Union

from .locate import command
from .log import Log
from .notebook import FILTER


def call(arguments: Sequence[str], *, stdin: Optional[str] = None, progress: bool = False) -> str:
    """Calls the command and returns what it wrote to standard output.

    Args:
        arguments: the arguments after `resemblance` on the command line.
        stdin: the standard input of the command; empty unless given.
        progress: whether progress is written to `sys.stderr`, or shown as a bar in a notebook. Warnings are always written.

    Raises:
        ResemblanceError: the command failed; the class says who must act.
        KeyboardInterrupt: Ctrl-C was pressed. The command has ended cleanly before this is raised.
    """
    log = Log(progress)
    environment = dict(os.environ)
    if log.bar is not None:
        environment.setdefault("RESEMBLANCE_LOG", FILTER)
    with ExitStack() as stack:
        # Files instead of pipes: with a single pipe, that of standard error, one thread can read everything.
        results = stack.enter_context(tempfile.TemporaryFile())
        source: Union[int, IO[bytes]] = subprocess.DEVNULL
        if stdin is not None:
            source = stack.enter_context(tempfile.TemporaryFile())
            source.write(stdin.encode("utf-8"))
            source.seek(0)
        child = stack.enter_context(
            subprocess.Popen(
                [command(), "--log-format=json", *arguments],
                stdin=source,
                stdout=results,
                stderr=subprocess.PIPE,
                env=environment,
                # A terminal and a notebook send SIGINT to the whole group, and a second one ends the command at once and not in
                # order. In a session of its own the command gets only the one that `_stop` sends. Other threads than the main one
                # get no KeyboardInterrupt, so they leave the command in the group that gets SIGINT.
                start_new_session=threading.current_thread() is threading.main_thread(),
            )
        )
        try:
            _follow(child, log)
        except BaseException as reason:
            _stop(child, log)
            if isinstance(reason, KeyboardInterrupt) and child.returncode != 0:
                raise reason from log.error(child.returncode)
            raise
        if child.returncode != 0:
            raise log.error(child.returncode)
        results.seek(0)
        return results.read().decode("utf-8")


def _follow(child: subprocess.Popen[bytes], log: Log) -> None:
    """Reads the child's log to its end, and waits for the end of the child."""
    assert child.stderr is not None
    for line in child.stderr:
        log.add(line.decode("utf-8", "replace"))
    child.wait()


def _stop(child: subprocess.Popen[bytes], log: Log) -> None:
    """Asks the child to end, and waits until it has. A second Ctrl-C asks it to end at once."""
    while child.poll() is None:
        try:
            if os.name == "posix":
                child.send_signal(signal.SIGINT)
            else:
                child.terminate()
            _follow(child, log)
        except KeyboardInterrupt:
            pass
