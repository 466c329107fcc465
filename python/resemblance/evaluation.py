"""The command that measures a finished output: what it missed, and whether what it found are true duplicates."""

from __future__ import annotations

import json
import os
from typing import Any, Optional, Union, cast

from .output import Location, location_of
from .process import call
from .source import Places, source_options

#: A path of this machine.
LocalPath = Union[str, "os.PathLike[str]"]


def evaluate(
    output: Location,
    *,
    sample: Optional[int] = None,
    seed: int = 1,
    truth: Optional[LocalPath] = None,
    audit: Optional[int] = None,
    to: Optional[LocalPath] = None,
    labels: Optional[LocalPath] = None,
    source: Optional[Places] = None,
    memory: Optional[str] = None,
) -> dict[str, Any]:
    """Measures on a sample what a finished output missed; with `audit`, draws pairs to be judged, and with `labels`, reads the labels.

    The source must not have changed since the job ran, except for `labels`, which do not need it.

    Args:
        output: the finished output: a path, a URL, or what `run` returned.
        sample: how many shingle sets are drawn to measure the recall, about; 1,000 unless given.
        seed: another seed gives another sample.
        truth: a CSV or Parquet file of known pairs (id_a, id_b) or known clusters (id, cluster_id) to compare with.
        audit: how many pairs are drawn to be judged, instead of measuring the recall.
        to: the folder for `audit.html`, `audit.csv` and `audit.parquet`, which must not exist; `audit` unless given.
        labels: a CSV or Parquet file with labels of such pairs: yes, no or unsure in the column `label`.
        source: with `audit`, where the source is now, if it was moved; a list for a source of several URLs, in their order.
        memory: how much may be held at once, such as `"1GiB"`.

    Raises:
        TypeError: `to` or `source` is given without `audit`, or two of `truth`, `audit` and `labels`.
    """
    if sum(given is not None for given in (truth, audit, labels)) > 1:
        raise TypeError("evaluate takes one of truth, audit and labels")
    if audit is None and (to is not None or source is not None):
        raise TypeError("to and source are for audit: name how many pairs it draws")
    given = {
        "sample": sample,
        "seed": seed,
        "truth": None if truth is None else os.fspath(truth),
        "audit": audit,
        "to": None if to is None else os.fspath(to),
        "labels": None if labels is None else os.fspath(labels),
        "memory": memory,
    }
    options = [f"--{name}={value}" for name, value in given.items() if value is not None]
    options += source_options(source)
    printed = call(["evaluate", "--json", *options, "--", location_of(output)])
    return cast("dict[str, Any]", json.loads(printed))
