"""The assets of Dagster, materialised by Dagster itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import resemblance

from .conftest import REPOSITORY, example_of, needs, needs_environment

needs_environment("dagster")
dg = needs("dagster")
from resemblance.dagster import similar_documents  # noqa: E402 - it needs dagster

QUICKSTART = REPOSITORY / "jobs" / "quickstart.toml"


def materialize(reviews: Any, *others: Any, **arguments: Any) -> Any:
    """The result of one run of the assets. Errors of steps are in it."""
    with dg.DagsterInstance.ephemeral() as instance:
        return dg.materialize([reviews, *others], instance=instance, raise_on_error=False, **arguments)


def checks(result: Any) -> dict[str, Any]:
    return {check.check_name: check for check in result.get_asset_check_evaluations()}


def test_an_asset_has_the_counts_and_the_version_of_its_run(tmp_path: Path) -> None:
    settings = {"output__url": tmp_path / "out"}
    reviews = similar_documents(QUICKSTART, key="reviews", settings=settings, group_name="similar")
    result = materialize(reviews)
    assert result.success
    (event,) = result.asset_materializations_for_node("reviews")
    shown = {name: value.value for name, value in event.metadata.items()}
    output = resemblance.open(tmp_path / "out")
    for name in ("documents", "pairs", "clusters", "removed_documents"):
        assert shown[name] == output.counts[name]
    assert shown["pairs"] == output.pairs.rows == 7
    assert shown["removed_share"] == pytest.approx(shown["removed_documents"] / shown["documents"])
    assert shown["output"] == output.output
    assert event.tags["dagster/data_version"] == output.manifest["fingerprint"]
    assert result.run_id in shown["resemblance_run_id"]
    assert reviews.group_names_by_key == {dg.AssetKey("reviews"): "similar"}
    assert checks(result) == {}


@pytest.mark.parametrize("fails", [False, True])
def test_bounds_are_checks_of_the_asset(tmp_path: Path, fails: bool) -> None:
    settings = {
        "output__url": tmp_path / "out",
        "alarms__removed_share": 0.01,
        "alarms__largest_cluster": 1000,
        "alarms__fail": fails,
    }
    reviews = similar_documents(QUICKSTART, key="reviews", settings=settings)

    @dg.asset(deps=[reviews])
    def after() -> None:
        pass

    result = materialize(reviews, after)
    removed, largest = checks(result)["removed_share"], checks(result)["largest_cluster"]
    assert (removed.passed, largest.passed) == (False, True)
    assert removed.severity.value == ("ERROR" if fails else "WARN")
    assert "would be removed" in removed.description
    assert removed.metadata["allowed"].value == 0.01
    assert removed.metadata["found"].value == resemblance.open(tmp_path / "out").removed_share
    # The output is complete, and only an alarm that fails the run stops what depends on it.
    assert len(result.asset_materializations_for_node("reviews")) == 1
    assert len(result.asset_materializations_for_node("after")) == (0 if fails else 1)
    assert result.success is not fails


def test_settings_may_depend_on_the_partition(tmp_path: Path) -> None:
    days = dg.StaticPartitionsDefinition(["monday", "tuesday"])

    def settings(context: Any) -> dict[str, Any]:
        return {"output__url": tmp_path / context.partition_key}

    reviews = similar_documents(QUICKSTART, key=["lake", "reviews"], settings=settings, partitions_def=days)
    assert materialize(reviews, partition_key="tuesday").success
    assert resemblance.open(tmp_path / "tuesday").pairs.rows == 7
    assert not (tmp_path / "monday").exists()


def test_the_example_of_the_docs_is_an_asset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    job = 'source = {format = "text", url = "in/"}\noutput.url = "out/"\nalarms.largest_cluster = 9\n'
    Path("reviews.toml").write_text(job)
    names: dict[str, Any] = {}
    exec(example_of("Dagster"), names)
    asset = names["defs"].resolve_asset_graph().get(dg.AssetKey("similar_reviews"))
    assert (asset.is_partitioned, asset.parent_keys) == (True, {dg.AssetKey("reviews")})
    assert [key.name for key in asset.check_keys] == ["largest_cluster"]


def test_a_job_that_is_wrong_is_an_error_when_the_asset_is_defined() -> None:
    with pytest.raises(resemblance.JobError, match="score.threshold"):
        similar_documents(QUICKSTART, key="reviews", settings={"score__threshold": 2})


def test_a_run_that_fails_fails_the_asset(tmp_path: Path) -> None:
    settings = {"output__url": tmp_path / "out", "source__url": tmp_path / "none"}
    result = materialize(similar_documents(QUICKSTART, key="reviews", settings=settings))
    assert not result.success
    assert result.asset_materializations_for_node("reviews") == []
