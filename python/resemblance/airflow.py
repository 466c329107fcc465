"""The output of a job as an asset of Airflow 3, with its alarms as tasks that check it. Needs the package `apache-airflow`.

    from airflow.sdk import DAG, Asset

    from resemblance.airflow import similar_documents

    with DAG("reviews", schedule="@daily"):
        similar_documents(
            "reviews.toml",
            asset=Asset("similar_reviews"),
            settings={"source__url": "data/day={{ ds }}/", "output__url": "out/day={{ ds }}/"},
        )
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, Optional

from airflow.sdk import Asset, Metadata, TaskGroup, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException

from .orchestrated import bounds_of, metadata_of, run_for_checks
from .settings import Job


def similar_documents(
    job: Job, *, asset: Asset, settings: Optional[Mapping[str, Any]] = None, **run_task: Any
) -> TaskGroup:
    """A group of three tasks: `run` runs a job, `check` checks each bound of its `[alarms]`, and `publish` updates the asset.

    The event of the asset has the counts of the run in its `extra`. With `alarms.fail = true` an exceeded bound fails its check, and
    the asset is not updated; otherwise the check logs a warning. The output is complete in either case.

    Args:
        job: a dict or the path of a job file, as in `resemblance.run`.
        asset: the asset that DAGs which read the output depend on. Its name is that of the group.
        settings: keys that are set over the job. They are templates, such as `{"source__url": "data/day={{ ds }}/"}`.
        run_task: further arguments of the task `run`, such as `retries`. A retry continues where the run stopped.

    Returns:
        The group, for `>>`.
    """

    # Tasks can only be mapped over what another one returns, so the metadata have a key of their own.
    @task(task_id="run", **run_task)
    def run(job: Any, settings: dict[str, Any]) -> list[dict[str, Any]]:
        context = get_current_context()
        instance = context["ti"]
        _, fails = bounds_of(job, settings)
        ran = run_for_checks(job, settings, f"{context['run_id']}-{instance.task_id}-{instance.try_number}")
        instance.xcom_push(key="metadata", value=metadata_of(ran))
        return [{**asdict(alarm), "alarms": list(alarm.alarms), "fails": fails} for alarm in ran.alarms]

    @task(task_id="check", retries=0, map_index_template="{{ task.op_kwargs['alarm']['bound'] }}")
    def check(alarm: dict[str, Any]) -> None:
        print(f"{alarm['bound']}: {alarm['found']} found, {alarm['allowed']} allowed")
        if alarm["alarms"] and alarm["fails"]:
            raise AirflowFailException("; ".join(alarm["alarms"]))
        for sentence in alarm["alarms"]:
            print(f"warning: {sentence}")

    # A job without bounds has no checks, which Airflow shows as skipped.
    @task(task_id="publish", outlets=[asset], trigger_rule="none_failed")
    def publish(metadata: dict[str, Any]) -> Iterator[Metadata]:
        yield Metadata(asset, metadata)

    with TaskGroup(asset.name) as group:
        ran = run(job if isinstance(job, Mapping) else str(job), dict(settings or {}))
        check.expand(alarm=ran) >> publish(ran["metadata"])
    return group
