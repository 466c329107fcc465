"""Reads the standard error of the command: progress is passed on, and the final error is kept."""

from __future__ import annotations

import json
import signal
import sys
from collections import deque
from typing import Any, Optional

from .errors import ResemblanceError, error_of
from .notebook import bar

#: The text between a message of the command and each of its causes.
_BECAUSE = "\n  because: "
#: The most lines that are kept, in case the command ends without an error.
_KEPT_LINES = 20


class Log:
    """Reads the command's log lines.

    The command writes JSON lines (`--log-format json`) to a pipe. Its text form would have to be parsed to find
    the message, and its progress bar needs a terminal of its own, which would leave no message for
    the exception and nothing at all for a notebook. A JSON line says whether it is progress, a warning or the error
    that ends the command, and holds that error whole. So one way serves terminals, notebooks and log files: each
    line is written to `sys.stderr` like in the text form, except for the final error, which becomes an exception. In a
    notebook, lines about stages move a bar instead.
    """

    def __init__(self, progress: bool) -> None:
        #: Whether progress is passed on, besides warnings.
        self._progress = progress
        self.bar = bar() if progress else None
        self._failure: Optional[dict[str, Any]] = None
        self._last: deque[str] = deque(maxlen=_KEPT_LINES)

    def add(self, line: str) -> None:
        """Takes a line."""
        try:
            entry = json.loads(line)
            level, fields = entry["level"], dict(entry["fields"])
        except (ValueError, TypeError, KeyError):
            # Not the command's log: the dynamic linker, or the standard library when memory ran out.
            self._last.append(line.rstrip())
            _write(line.rstrip())
            return
        if level == "ERROR" and "exit_code" in fields:
            self._failure = fields
        elif self.bar is not None and level in ("INFO", "DEBUG") and "stage" in fields:
            self.bar.update(str(fields.get("message", "")), fields)
        elif level == "DEBUG" and "stage" in fields and "done" in fields:
            # How far a stage is, for bars alone.
            pass
        elif self._progress or level in ("WARN", "ERROR"):
            _write(_sentence(level, fields))

    def error(self, returncode: int) -> ResemblanceError:
        """The error of a command that ended with this return code, as `subprocess` gives it."""
        if self._failure is not None:
            message, *causes = str(self._failure.get("message", "")).split(_BECAUSE)
            return error_of(returncode, message, causes)
        if returncode < 0:
            # As shells report it.
            exit_code, how = 128 - returncode, f"was killed by {_name_of_signal(-returncode)}"
        else:
            exit_code, how = returncode, f"ended with exit code {returncode}"
        said = f": {' / '.join(self._last)}" if self._last else " and said nothing"
        return error_of(exit_code, f"resemblance {how}{said}")


def _sentence(level: str, fields: dict[str, Any]) -> str:
    """A log line for people."""
    message, stage = fields.pop("message", ""), fields.pop("stage", None)
    text = f"{stage}: {message}" if stage is not None else str(message)
    if fields:
        text += f" ({', '.join(f'{key}={value}' for key, value in fields.items())})"
    return {"WARN": "warning: ", "ERROR": "error: "}.get(level, "") + text


def _write(line: str) -> None:
    """Writes a line to `sys.stderr`, which notebooks replace by an object of their own."""
    try:
        print(line, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        # The stream is closed, which is not a reason to end a run.
        pass


def _name_of_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
