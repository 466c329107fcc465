"""Finds the command: named by the environment, next to this package, or on the path."""

from __future__ import annotations

import os
import shutil
import sysconfig
from collections.abc import Iterator

from .errors import CommandNotFound

#: The environment variable that names the command to call.
VARIABLE = "RESEMBLANCE_BIN"


def command() -> str:
    """The path of the command `resemblance`.

    That is the command in the environment variable RESEMBLANCE_BIN, or else the one that was installed with this
    package, or else the first of that name on the path.

    Raises:
        CommandNotFound: no command was found.
    """
    named = os.environ.get(VARIABLE)
    if named:
        if not _can_be_called(named):
            raise CommandNotFound(f"{VARIABLE} names {named}, which is no file that can be run")
        # A name without a folder would be looked up on the path.
        return os.path.abspath(named)
    searched = []
    for folder in _scripts_folders():
        path = os.path.join(folder, "resemblance" + (sysconfig.get_config_var("EXE") or ""))
        if _can_be_called(path):
            return path
        searched.append(folder)
    on_path = shutil.which("resemblance")
    if on_path:
        return on_path
    raise CommandNotFound(
        f"the command resemblance was not found in {' or '.join(searched)}, nor on the path: "
        f"install this package's wheel, or set {VARIABLE} to the path of the command"
    )


def _scripts_folders() -> Iterator[str]:
    """The folders into which installers put the commands of packages."""
    yield sysconfig.get_path("scripts")
    user_scheme = f"{os.name}_user"
    if user_scheme in sysconfig.get_scheme_names():
        yield sysconfig.get_path("scripts", user_scheme)


def _can_be_called(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)
