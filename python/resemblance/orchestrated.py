"""Runs of jobs for orchestrators: what an asset shows of a run, and alarms as checks of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Union

from .job_commands import check, run
from .output import Run
from .settings import Job

#: What a run id may not hold, and how long it may be.
_NOT_IN_RUN_IDS = re.compile(r"[^A-Za-z0-9._-]+")
_RUN_ID_LENGTH = 128


def run_for_checks(job: Job, settings: Mapping[str, Any], run_id: str) -> Run:
    """Runs a job, and logs its stages. An exceeded bound is an alarm of the run, and no error: the output is complete.

    Args:
        job, settings: as in `resemblance.run`.
        run_id: the name of the run, with `-` for every character that a run id may not have.
    """
    named = _NOT_IN_RUN_IDS.sub("-", run_id)[-_RUN_ID_LENGTH:]
    return run(job, run_id=named, **{"progress": True, **settings, "alarms__fail": False})


def bounds_of(job: Job, settings: Mapping[str, Any]) -> tuple[dict[str, float], bool]:
    """The bounds that a job sets, by their keys, and whether passing one is an error. Reads no data."""
    alarms = check(job, **settings).job.get("alarms", {})
    bounds = {key: value for key, value in alarms.items() if key not in ("per", "fail") and value is not None}
    return bounds, bool(alarms.get("fail"))


def metadata_of(ran: Run) -> dict[str, Union[str, int, float]]:
    """What an orchestrator shows of an output: its place, its version, and how much it found."""
    counts = ran.counts
    names = ("documents", "rejects", "pairs", "clusters", "clustered_documents", "removed_documents")
    shown: dict[str, Union[str, int, float]] = {name: counts[name] for name in names}
    shown["removed_share"] = ran.removed_share
    shown["seconds"] = ran.seconds
    shown["output"] = ran.output
    shown["fingerprint"] = ran.manifest["fingerprint"]
    shown["resemblance_run_id"] = ran.run_id
    return shown
