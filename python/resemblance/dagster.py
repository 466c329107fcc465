"""The output of a job as an asset of Dagster, with its alarms as asset checks. Needs the package `dagster`.

    import dagster as dg

    from resemblance.dagster import similar_documents

    reviews = similar_documents("reviews.toml", key="similar_reviews", deps=["reviews"])
    defs = dg.Definitions(assets=[reviews])
"""

# Dagster reads the types of arguments, so they are not postponed.
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional, Union

import dagster as dg

from .alarms import Alarm
from .orchestrated import bounds_of, metadata_of, run_for_checks
from .settings import Job

#: Keys over the job: the same for every run, or for each partition.
Settings = Union[Mapping[str, Any], Callable[[dg.AssetExecutionContext], Mapping[str, Any]]]


def similar_documents(
    job: Job, *, key: Union[dg.AssetKey, str, Sequence[str]], settings: Optional[Settings] = None, **asset: Any
) -> dg.AssetsDefinition:
    """An asset that runs a job. Its metadata have the counts of the run, and its data version is the output's fingerprint.

    Every bound of the job's `[alarms]` is a check of the asset. With `alarms.fail = true` an exceeded bound is an error, and
    blocks the assets that depend on this one; otherwise it is a warning. The output is complete in either case.

    Args:
        job: a dict or the path of a job file, as in `resemblance.run`. It is read when the asset is defined.
        key: the key of the asset.
        settings: keys that are set over the job, such as `{"score__threshold": 0.9}`, or a function that gives them for a run, such as
            `lambda context: {"source__url": f"data/day={context.partition_key}/"}`. Bounds are those of the job, without the settings
            of a function.
        asset: further arguments of `dagster.asset`, such as `deps`, `partitions_def` and `group_name`.

    Raises:
        JobError: the job is wrong.
    """
    asset_key = dg.AssetKey.from_coercible(key)
    bounds, fails = bounds_of(job, {} if settings is None or callable(settings) else settings)
    severity = dg.AssetCheckSeverity.ERROR if fails else dg.AssetCheckSeverity.WARN
    specs = [
        dg.AssetCheckSpec(bound, asset=asset_key, blocking=fails, description=f"alarms.{bound} allows {allowed}")
        for bound, allowed in bounds.items()
    ]

    @dg.asset(key=asset_key, check_specs=specs, **{"kinds": {"parquet"}, **asset})
    def similar(context: dg.AssetExecutionContext) -> dg.MaterializeResult:  # type: ignore[type-arg, unused-ignore]
        chosen = settings(context) if callable(settings) else settings or {}
        ran = run_for_checks(job, chosen, f"{context.run.run_id}-{asset_key.to_python_identifier()}")
        # A check that is not declared would be an error, and one that is declared needs a result.
        results = [_result(alarm, severity) for alarm in ran.alarms if alarm.bound in bounds]
        version = dg.DataVersion(ran.manifest["fingerprint"])
        return dg.MaterializeResult(metadata=metadata_of(ran), check_results=results, data_version=version)

    return similar


def _result(alarm: Alarm, severity: dg.AssetCheckSeverity) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        check_name=alarm.bound,
        passed=not alarm.is_raised,
        severity=severity,
        description="; ".join(alarm.alarms) or None,
        metadata={"allowed": alarm.allowed, "found": alarm.found},
    )
