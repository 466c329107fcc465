"""Jobs and settings as TOML."""

from __future__ import annotations

import datetime
import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

import resemblance

from .conftest import needs
from resemblance.settings import set_arguments, to_toml, toml_value

tomllib: Any = importlib.import_module("tomllib") if sys.version_info >= (3, 11) else None

needs_tomllib = pytest.mark.skipif(sys.version_info < (3, 11), reason="needs tomllib, which Python has from 3.11 on")

VALUES: list[Any] = [
    True,
    False,
    0,
    -(2**63),
    2**63 - 1,
    0.1,
    -1e300,
    5e-324,
    float("inf"),
    "",
    "plain",
    'a "quoted" back\\slash\tand\nlines\r\n\x00\x1f\x7f',
    "'''",
    '"""',
    "naïve 文字 🦀 \u2028",
    [],
    [1, 2, 3],
    [["a", "b"], []],
    ["x" * 60, "y" * 60, "z" * 60],
    {},
    {"a": 1, "b c": {"d.e": [True, {"f": "g"}]}},
    datetime.datetime(2024, 2, 29, 12, 30, 1, 5, tzinfo=datetime.timezone.utc),
    datetime.datetime(2024, 2, 29, 12, 30),
    datetime.date(2024, 2, 29),
    datetime.time(23, 59, 59),
]


@needs_tomllib
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_come_back_from_toml(value: Any) -> None:
    def same(found: Any, expected: Any) -> bool:
        return type(found) is type(expected) and found == expected

    assert same(tomllib.loads(to_toml({"section": {"key": value}}))["section"]["key"], value)
    on_one_line = toml_value(value)
    assert "\n" not in on_one_line
    assert same(tomllib.loads(f"key = {on_one_line}")["key"], value)


@needs_tomllib
def test_what_stands_for_a_value_of_toml_is_written_as_one() -> None:
    job = {"source": {"url": (Path("a") / "b", "c")}, "name": "n"}
    assert tomllib.loads(to_toml(job)) == {"source": {"url": ["a/b", "c"]}, "name": "n"}
    numpy = needs("numpy")
    values = {"i": numpy.int64(7), "f": numpy.float32(0.5), "b": numpy.bool_(True)}
    assert tomllib.loads(to_toml(values)) == {"i": 7, "f": 0.5, "b": True}


def test_two_underscores_are_the_dot() -> None:
    assert set_arguments({"score__threshold": 0.9, "name": "a b", "shingle__min_words": 3, "lsh__rows": None}) == [
        "--set=score.threshold=0.9",
        '--set=name="a b"',
        "--set=shingle.min_words=3",
    ]


def test_texts_reach_the_command_as_they_are() -> None:
    texts = ["a\tb", '"', "\\", "'", "=", "-", "3", "true", "語", "a\nb"]
    source = {"format": "text", "url": texts}
    written = resemblance.check({"source": source, "name": "x", "output": {"url": "'out\""}})
    assert (written.job["source"]["urls"], written.job["output"]["url"]) == (texts, "'out\"")
    over = resemblance.check("jobs/quickstart.toml", source__url=texts, output__url="\"out'", name="3")
    assert (over.job["source"]["urls"], over.job["output"]["url"], over.job["name"]) == (texts, "\"out'", "3")


@pytest.mark.parametrize(
    ("job", "said"),
    [
        ({"score": {"threshold": None}}, "score.threshold is None"),
        ({"source": {"url": ["a", {1, 2}]}}, r"source.url\[1\] is a value of the type set"),
        ({"source": {1: "a"}}, "source has the key 1"),
    ],
)
def test_what_toml_cannot_hold_is_named(job: dict[str, Any], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        resemblance.check(job)
