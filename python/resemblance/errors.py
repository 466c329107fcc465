"""The errors: one class for each exit code of the command, which says who must act."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional


class ResemblanceError(Exception):
    """The command failed. Its subclasses say who must act; this class itself is for any other exit code.

    `str(error)` is the whole message, with the causes on lines of their own.
    """

    #: The exit code of the command that ends with this kind of error.
    exit_code: int = 1
    #: The message of the command.
    message: str
    #: Its causes, from the nearest to the innermost.
    causes: tuple[str, ...]

    def __init__(self, message: str, causes: Sequence[str] = (), exit_code: Optional[int] = None) -> None:
        # All arguments go to the base class, so that an error can be pickled.
        super().__init__(message, tuple(causes), exit_code)
        self.message = message
        self.causes = tuple(causes)
        if exit_code is not None:
            self.exit_code = exit_code

    def __str__(self) -> str:
        return "\n  because: ".join((self.message, *self.causes))


class JobError(ResemblanceError):
    """The job or an argument is wrong: correct it."""

    exit_code = 2


class InputError(ResemblanceError):
    """The input or the storage is wrong or cannot be reached: correct it, then run again."""

    exit_code = 3


class EngineError(ResemblanceError):
    """The engine lacks memory, lost its cluster, or met a limit of the job: change that, or run again."""

    exit_code = 4


class BugError(ResemblanceError):
    """The program itself is wrong: please report it."""

    exit_code = 5


class AlarmError(ResemblanceError):
    """The result is complete, but exceeds a bound of [alarms], so a person should check it."""

    exit_code = 6


class Interrupted(ResemblanceError):
    """Another process stopped the command. The same job continues from the last finished stage when it is run again.

    Ctrl-C in Python is a `KeyboardInterrupt`, whose `__cause__` is this error.
    """

    exit_code = 130


class CommandNotFound(ResemblanceError):
    """The command `resemblance` is not installed, or not at the path in the environment."""

    exit_code = 127


_BY_EXIT_CODE: dict[int, type[ResemblanceError]] = {
    kind.exit_code: kind for kind in (JobError, InputError, EngineError, BugError, AlarmError, Interrupted)
}


def error_of(exit_code: int, message: str, causes: Sequence[str] = ()) -> ResemblanceError:
    """The error for an exit code."""
    kind = _BY_EXIT_CODE.get(exit_code, ResemblanceError)
    return kind(message, causes, exit_code)
