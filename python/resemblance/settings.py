"""Converts jobs and settings to TOML for the command."""

from __future__ import annotations

import datetime
import numbers
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Union

import tomli_w

from .errors import ResemblanceError

#: A job: a dict of its sections, or the path of its TOML file.
Job = Union[Mapping[str, Any], str, "os.PathLike[str]"]


#: The sections of a job.
SECTIONS = frozenset(
    ["source", "shingle", "minhash", "lsh", "candidates", "against", "score", "clusters", "alarms", "output", "engine"]
)


@contextmanager
def job_arguments(job: Job, settings: Mapping[str, Any]) -> Iterator[list[str]]:
    """The arguments of a command for a job and the settings that override it.

    A dict is written to a temporary file, which errors call "the job".
    """
    sets = set_arguments(settings)
    if not isinstance(job, Mapping):
        yield [*sets, "--", os.fspath(job)]
        return
    text = to_toml(job)
    with tempfile.TemporaryDirectory(prefix="resemblance-") as folder:
        path = os.path.join(folder, "job.toml")
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        try:
            yield [*sets, "--", path]
        except ResemblanceError as error:
            # The file is about to be removed, and no user has seen its lines.
            place = re.compile(re.escape(path) + r"(:\d+)?")
            named = [place.sub("the job", said) for said in (error.message, *error.causes)]
            raise type(error)(named[0], named[1:], error.exit_code) from None


def set_arguments(settings: Mapping[str, Any]) -> list[str]:
    """`score__threshold=0.9` as `--set=score.threshold=0.9`. A setting that is None is left out.

    Raises:
        TypeError: a setting has one underscore where a section and a key are divided by two.
    """
    for key in settings:
        section, _, rest = key.partition("_")
        if "__" not in key and rest and section in SECTIONS:
            raise TypeError(f"{key} is no setting: write {section}__{rest}, with two underscores after the section")
    return [
        f"--set={key.replace('__', '.')}={toml_value(value, key)}"
        for key, value in settings.items()
        if value is not None
    ]


def to_toml(job: Mapping[str, Any]) -> str:
    """A job as TOML. Paths are written as text, and numbers of NumPy as numbers.

    Raises:
        TypeError: a value has no form in TOML. The message names its key.
    """
    return tomli_w.dumps({key: _plain(value, key) for key, value in _items(job, "")})


def toml_value(value: Any, key: str = "value") -> str:
    """A value as TOML on one line, as after `=`."""
    return _inline(_plain(value, key))


def _items(table: Mapping[str, Any], within: str) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if not isinstance(key, str):
            raise TypeError(f"keys of a job are text, and {within or 'the job'} has the key {key!r}")
        yield key, value


def _plain(value: Any, key: str) -> Any:
    """The value in types that TOML has."""
    if isinstance(value, (bool, str, datetime.datetime, datetime.date, datetime.time)):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    if isinstance(value, Mapping):
        return {name: _plain(item, f"{key}.{name}") for name, item in _items(value, key)}
    if isinstance(value, (list, tuple)):
        return [_plain(item, f"{key}[{number}]") for number, item in enumerate(value)]
    if type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    what = "None" if value is None else f"a value of the type {type(value).__name__}"
    raise TypeError(f"{key} is {what}, which a job cannot hold: leave it out, or give text, a number or a list")


def _inline(value: Any) -> str:
    """A plain value on one line. `tomli_w` writes tables and long lists on several."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_inline(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_inline(item) for item in value) + "]"
    return tomli_w.dumps({"v": value}).strip().partition(" = ")[2]


def _key(key: str) -> str:
    return tomli_w.dumps({key: 0}).strip().partition(" = ")[0]
