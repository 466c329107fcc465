"""The task group of Airflow, run by Airflow itself on a database of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import resemblance

from .conftest import REPOSITORY, example_of, needs_environment

needs_environment("airflow")

QUICKSTART = REPOSITORY / "jobs" / "quickstart.toml"
#: A DAG over the quickstart, whose output and bounds come from the environment.
DAGS = """
import os

from airflow.sdk import DAG, Asset

from resemblance.airflow import similar_documents

with DAG("reviews", schedule=None) as dag:
    similar_documents(
        os.environ["JOB"],
        asset=Asset("similar_reviews"),
        settings={"output__url": os.environ["OUT"] + "/day={{ ds }}", **eval(os.environ["SETTINGS"])},
        retries=1,
    )
"""
#: Runs the DAG in this process, and prints the states of its tasks and the events of its asset.
RUN = """
import importlib, json, sys
from datetime import datetime, timezone

sys.path.insert(0, sys.argv[1])
dag = importlib.import_module(sys.argv[2]).dag
from airflow.models.asset import AssetEvent
from airflow.utils.session import create_session

ran = dag.test(logical_date=datetime(2026, 11, int(sys.argv[3]), tzinfo=timezone.utc))
with create_session() as session:
    events = [event.extra for event in session.query(AssetEvent)]
    states = {f"{ti.task_id}[{ti.map_index}]": ti.state for ti in ran.get_task_instances(session=session)}
print("RESULT", json.dumps({"state": ran.state, "states": states, "events": events}))
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home of Airflow with an empty database and the DAG."""
    home = tmp_path_factory.mktemp("airflow")
    (home / "dags").mkdir()
    (home / "dags" / "reviews.py").write_text(DAGS)
    airflow([Path(sys.prefix) / "bin" / "airflow", "db", "migrate"], home)
    return home


def airflow(command: list[Any], home: Path, **more: str) -> str:
    """The standard output of a command with the settings of this home."""
    environment = {
        **os.environ,
        "AIRFLOW_HOME": os.fspath(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": os.fspath(home / "dags"),
        "PYTHONPATH": os.fspath(REPOSITORY / "python"),
        **more,
    }
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-4000:]
    return ran.stdout


def run_day(home: Path, module: str, day: int, **more: str) -> dict[str, Any]:
    """Runs the DAG in a module for a day of November, and gives the states of its tasks and the events of all assets."""
    printed = airflow([sys.executable, "-c", RUN, home / "dags", module, str(day)], home, **more)
    (line,) = (line for line in printed.splitlines() if line.startswith("RESULT "))
    result: dict[str, Any] = json.loads(line[len("RESULT ") :])
    return result


def run(home: Path, out: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Runs the DAG, and gives the states of its tasks and the events of its asset about this output."""
    result = run_day(home, "reviews", 20, JOB=os.fspath(QUICKSTART), OUT=os.fspath(out), SETTINGS=repr(settings))
    result["events"] = [event for event in result["events"] if event["output"].startswith(os.fspath(out))]
    return result


def test_the_asset_has_the_counts_of_the_run_and_bounds_are_tasks(home: Path, tmp_path: Path) -> None:
    bounds = {"alarms__removed_share": 0.01, "alarms__largest_cluster": 1000}
    result = run(home, tmp_path, bounds)
    # A bound that is passed is a warning, unless the job says that it fails the run.
    assert result["state"] == "success"
    assert result["states"] == {
        "similar_reviews.run[-1]": "success",
        "similar_reviews.check[0]": "success",
        "similar_reviews.check[1]": "success",
        "similar_reviews.publish[-1]": "success",
    }
    output = resemblance.open(tmp_path / "day=2026-11-20")
    (shown,) = result["events"]
    assert (shown["pairs"], shown["clusters"]) == (output.pairs.rows, output.counts["clusters"]) == (7, 5)
    assert shown["removed_share"] == pytest.approx(output.removed_share)
    assert (shown["output"], shown["fingerprint"]) == (output.output, output.manifest["fingerprint"])


def test_the_example_of_the_docs_is_a_dag(home: Path) -> None:
    example = f"{example_of('Airflow')}\nprint('TASKS', *sorted(dag.task_ids))"
    printed = airflow([sys.executable, "-c", example], home)
    assert "TASKS similar_reviews.check similar_reviews.publish similar_reviews.run" in printed.splitlines()


def test_a_job_without_bounds_updates_its_asset(home: Path, tmp_path: Path) -> None:
    result = run(home, tmp_path, {})
    assert result["states"]["similar_reviews.publish[-1]"] == "success"
    assert [event["output"] for event in result["events"]] == [str(tmp_path / "day=2026-11-20")]


def test_an_alarm_that_fails_leaves_the_asset_as_it_was(home: Path, tmp_path: Path) -> None:
    result = run(home, tmp_path, {"alarms__removed_share": 0.01, "alarms__largest_cluster": 1000, "alarms__fail": True})
    assert result["state"] == "failed"
    assert result["states"]["similar_reviews.run[-1]"] == "success"
    assert result["states"]["similar_reviews.check[0]"] == "failed"
    assert result["states"]["similar_reviews.check[1]"] == "success"
    assert result["states"]["similar_reviews.publish[-1]"] == "upstream_failed"
    assert result["events"] == []
    assert resemblance.open(tmp_path / "day=2026-11-20").pairs.rows == 7


def test_the_daily_dag_of_the_docs_runs_checks_applies_and_merges(home: Path, tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "scheduling.md").read_text(encoding="utf-8")
    example = page.split("\n## Airflow\n", 1)[1].split("\n## ", 1)[0].split("```python\n")[-1].split("```", 1)[0]
    job = tmp_path / "reviews.toml"
    example = example.replace("s3://lake", os.fspath(tmp_path)).replace("/opt/reviews/reviews.toml", os.fspath(job))
    (home / "dags" / "daily.py").write_text(example)
    job.write_text(
        'source = { format = "jsonl", url = "set by the DAG", id = "id", text = "text" }\n'
        'output.url = "set by the DAG"\nalarms = { min_documents = 2, fail = true }\n'
    )
    texts = {
        1: ["one two three four five six seven", "one two three four five six seven"],
        2: ["one two three four five six seven", "a text that nobody has written before"],
        3: ["one text is too few"],
    }
    for day, lines in texts.items():
        folder = tmp_path / "reviews" / f"day=2026-11-0{day}"
        folder.mkdir(parents=True)
        rows = ({"id": f"{day}-{n}", "text": text} for n, text in enumerate(lines))
        (folder / "part.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    path = f"{Path(os.environ['RESEMBLANCE_BIN']).absolute().parent}:{os.environ['PATH']}"
    results = [run_day(home, "daily", day, PATH=path) for day in texts]
    assert [result["state"] for result in results] == ["success", "success", "failed"], results
    assert results[0]["states"] == results[1]["states"]
    states = {task.split("[")[0]: state for task, state in results[2]["states"].items()}
    assert (states["similar_reviews.check"], states["apply"], states["merge"]) == (
        "failed",
        "upstream_failed",
        "upstream_failed",
    )
    clean = sorted((tmp_path / "clean").rglob("part.jsonl"))
    kept = [json.loads(line)["id"] for file in clean for line in file.read_text().splitlines()]
    assert kept == ["1-0", "2-1"]
    assert resemblance.open(tmp_path / "similar" / "until=2026-11-02").counts["documents"] == 4
