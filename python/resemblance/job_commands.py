"""The commands that take a job: run, check, plan, compare and sweep."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Optional, Union

from .output import Run
from .process import call
from .settings import Job, job_arguments


def run(
    job: Job,
    *,
    overwrite: bool = False,
    run_id: Optional[str] = None,
    progress: bool = False,
    **settings: Any,
) -> Run:
    """Runs a job: documents in, tables of pairs, clusters and rejects out.

    A run that was stopped continues from its last finished stage when the same job is run again. The same job over the
    same inputs does nothing the second time.

    Args:
        job: a dict of the job's sections, or the path of a job file. Relative paths in either start at the current
            folder.
        overwrite: whether a result of another job in the output is replaced, once the new one is complete.
        run_id: the name of the run in logs and records; a new UUID unless given. It changes no row.
        progress: whether stages are reported on `sys.stderr`, or as a bar in a notebook. Warnings always are.
        settings: keys that are set over the job, with two underscores for the dot: `score__threshold=0.9`.

    Raises:
        JobError, InputError, EngineError, BugError, AlarmError, Interrupted: by who must act.
        KeyboardInterrupt: Ctrl-C was pressed; the run has ended cleanly.
    """
    options = ["--overwrite"] if overwrite else []
    if run_id is not None:
        options.append(f"--run-id={run_id}")
    return Run(_call_with_job("run", options, job, settings, progress))


@dataclass(frozen=True)
class Checked:
    """What a job would do."""

    #: The job with all its defaults.
    job: dict[str, Any]
    #: `namespace` and `name` of each dataset that it reads, as OpenLineage events have them.
    inputs: list[dict[str, str]]
    #: `table`, `url`, `namespace` and `name` of each table that it writes.
    outputs: list[dict[str, str]]
    bands: int
    rows: int
    #: The similarity at which the S-curve is steepest.
    curve_threshold: float
    #: The share of true pairs at the threshold that will be found.
    expected_recall_at_threshold: float
    #: For each similarity the probability that such a pair becomes a candidate and passes the estimate, where the job asks for it.
    curve: dict[float, float]
    #: The stages of the run with their descriptions.
    stages: list[str]


def check(job: Job, **settings: Any) -> Checked:
    """Resolves a job and says what would run. Reads no data.

    Args:
        job: a dict or the path of a job file, as in `run`.
        settings: keys that are set over the job, as in `run`.

    Raises:
        JobError: the job is wrong.
    """
    checked = _call_with_job("check", ["--no-data"], job, settings, progress=False)
    return Checked(
        job=checked["job"],
        inputs=checked["inputs"],
        outputs=checked["outputs"],
        bands=checked["bands"],
        rows=checked["rows"],
        curve_threshold=checked["curve_threshold"],
        expected_recall_at_threshold=checked["expected_recall_at_threshold"],
        curve={point["similarity"]: point["kept"] for point in checked["curve"]},
        stages=checked["stages"],
    )


def plan(
    job: Job,
    *,
    sample: Optional[int] = None,
    seed: Optional[int] = None,
    tasks: Optional[int] = None,
    progress: bool = False,
    **settings: Any,
) -> dict[str, Any]:
    """Forecasts what a run of a job takes, by a sample of its documents. The job's output is not changed.

    Args:
        job: a dict of the job's sections, or the path of a job file, as in `run`.
        sample: documents to sample, about; 20,000 unless given.
        seed: the seed of the sample.
        tasks: tasks of a cluster, whose seconds are estimated too.
        progress: whether steps are reported on `sys.stderr`, or as a bar in a notebook. Warnings always are.
        settings: keys that are set over the job, as in `run`.

    Returns:
        The forecast as `resemblance plan --json` prints it: `seconds`, `peak_memory_bytes`, `written_bytes` and others, each with
        `value`, `low` and `high`, `stages`, and `risks`.
    """
    given = {"sample": sample, "seed": seed, "tasks": tasks}
    options = [f"--{name}={value}" for name, value in given.items() if value is not None]
    return _call_with_job("plan", options, job, settings, progress)


def compare(
    job: Job,
    *,
    documents: Optional[Iterable[int]] = None,
    repeat: Optional[int] = None,
    plots: Union[str, os.PathLike[str], None] = None,
    add_series: Union[str, os.PathLike[str], None] = None,
    progress: bool = False,
    **settings: Any,
) -> dict[str, Any]:
    """Times three methods for the same pairs on growing samples of the job's source. The job's output is not changed.

    Args:
        job: a dict or the path of a job file, as in `run`.
        documents: the sizes of the samples; 100, 500, 1000, 2000 and 5000 unless given.
        repeat: how often each is measured; the shortest time counts.
        plots: a folder for charts and a page of them.
        add_series: a CSV file (name, documents, seconds) with lines of other programs for the chart.
        settings: keys that are set over the job, as in `run`.

    Returns:
        Everything that was measured, as `resemblance compare --json` prints it.
    """
    options = _measuring(documents, repeat, plots, add_series)
    return _call_with_job("compare", options, job, settings, progress)


def sweep(
    job: Job,
    *,
    thresholds: Optional[Iterable[float]] = None,
    sizes: Optional[Iterable[int]] = None,
    documents: Optional[Iterable[int]] = None,
    repeat: Optional[int] = None,
    plots: Union[str, os.PathLike[str], None] = None,
    add_series: Union[str, os.PathLike[str], None] = None,
    progress: bool = False,
    **settings: Any,
) -> dict[str, Any]:
    """Tries shingle sizes, thresholds and numbers of documents on samples of the job's source.

    Args:
        job: a dict or the path of a job file, as in `run`.
        thresholds: least similarities of a pair; 0.3, 0.5, 0.7 and 0.9 unless given.
        sizes: words or characters in a shingle; 3, 5 and 7 unless given.
        documents, repeat, plots, add_series, settings: as in `compare`.

    Returns:
        Everything that was measured, as `resemblance sweep --json` prints it.
    """
    options = [*_list("thresholds", thresholds), *_list("sizes", sizes)]
    options += _measuring(documents, repeat, plots, add_series)
    return _call_with_job("sweep", options, job, settings, progress)


def _call_with_job(
    command: str, options: list[str], job: Job, settings: dict[str, Any], progress: bool
) -> dict[str, Any]:
    with job_arguments(job, settings) as arguments:
        printed = call([command, "--json", *options, *arguments], progress=progress)
    result: dict[str, Any] = json.loads(printed)
    return result


def _measuring(
    documents: Optional[Iterable[int]],
    repeat: Optional[int],
    plots: Union[str, os.PathLike[str], None],
    add_series: Union[str, os.PathLike[str], None],
) -> list[str]:
    """The options that `compare` and `sweep` share."""
    options = _list("documents", documents)
    if repeat is not None:
        options.append(f"--repeat={repeat}")
    if plots is not None:
        options.append(f"--plots={os.fspath(plots)}")
    if add_series is not None:
        options.append(f"--add-series={os.fspath(add_series)}")
    return options


def _list(name: str, values: Optional[Iterable[object]]) -> list[str]:
    return [] if values is None else [f"--{name}={','.join(map(str, values))}"]
