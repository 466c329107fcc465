"""Runs of jobs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import resemblance

from .conftest import DOCUMENTS


def job(output: Path, **score: float) -> dict[str, Any]:
    return {
        "source": {"format": "text", "url": f"{DOCUMENTS}/*.txt"},
        "shingle": {"size": 3, "unit": "word", "normalize": ["lowercase", "collapse-whitespace"]},
        "score": {"threshold": 0.5, **score},
        "output": {"url": output},
    }


def test_the_record_and_the_counts_are_those_of_the_run(quickstart: resemblance.Run) -> None:
    assert quickstart.run_id == quickstart.record["run_id"] == "of-the-tests"
    assert quickstart.record["exit_code"] == 0
    assert quickstart.manifest["name"] == "quickstart"
    assert quickstart.seconds > 0 and not quickstart.already_finished
    read = len(list(DOCUMENTS.glob("*.txt")))
    assert quickstart.counts["documents"] + quickstart.counts["rejects"] == read


def test_a_dict_is_a_job_and_finds_what_its_file_finds(quickstart: resemblance.Run, tmp_path: Path) -> None:
    run = resemblance.run(job(tmp_path / "out"))
    assert run.output == str(tmp_path / "out")

    def rows(run: resemblance.Run) -> list[dict[str, Any]]:
        return sorted(run.pairs.to_arrow().to_pylist(), key=lambda row: (row["id_a"], row["id_b"]))

    assert rows(run) == rows(quickstart)


def test_settings_are_set_over_the_job(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = resemblance.run(job(out), score__threshold=0.75, shingle__normalize=["lowercase"], minhash__seed=None)
    assert run.manifest["job"]["score"]["threshold"] == 0.75
    assert run.manifest["job"]["shingle"]["normalize"] == ["lowercase"]
    assert all(row["jaccard"] >= 0.75 for row in run.pairs.to_arrow().to_pylist())


def test_the_same_job_does_nothing_and_another_replaces_it_only_on_request(tmp_path: Path) -> None:
    first = resemblance.run(job(tmp_path / "out"))
    again = resemblance.run(job(tmp_path / "out"))
    assert (first.already_finished, again.already_finished) == (False, True)
    assert again.manifest == first.manifest
    with pytest.raises(resemblance.ResemblanceError, match="overwrite"):
        resemblance.run(job(tmp_path / "out"), score__threshold=0.9)
    run = resemblance.run(job(tmp_path / "out"), score__threshold=0.9, overwrite=True)
    assert run.counts["pairs"] == 3


def test_relative_paths_start_at_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(DOCUMENTS, tmp_path / "texts")
    monkeypatch.chdir(tmp_path)
    run = resemblance.run({**job(Path("out")), "source": {"format": "text", "url": "texts"}})
    monkeypatch.chdir("/")
    assert run.output == str(tmp_path / "out")
    assert run.pairs.to_arrow().num_rows == run.counts["pairs"] == 7


def test_progress_is_written_as_the_stages_begin_and_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`capsys` puts an object without a file descriptor in the place of `sys.stderr`, as notebooks do."""
    run = resemblance.run(job(tmp_path / "out"), progress=True)
    written = capsys.readouterr().err.splitlines()
    stages = [stage["name"] for stage in run.manifest["stages"]]
    for said in ("begins", "done"):
        lines = [line for line in written if line.partition(": ")[2].startswith(said)]
        assert [line.partition(":")[0] for line in lines] == stages
    assert written[0].startswith("sketches: begins (number=1, stages=")
    assert any(line.startswith("sketches: done (number=1, stages=") and "rows=16, seconds=" in line for line in written)
    # Warnings come in any case.
    resemblance.neighbors(run, id="garden.txt", top=100)
    assert capsys.readouterr().err.startswith("warning: ")


def test_check_gives_the_job_with_its_defaults() -> None:
    checked = resemblance.check("jobs/quickstart.toml", lsh__bands=20, lsh__rows=5)
    assert (checked.bands, checked.rows) == (20, 5)
    assert checked.job["minhash"]["permutations"] == 128
    # Mining of Massive Datasets, section 3.4.2.
    for similarity, probability in checked.curve.items():
        assert probability == pytest.approx(1 - (1 - similarity**5) ** 20)
    assert checked.expected_recall_at_threshold == pytest.approx(checked.curve[0.5])
    assert any(stage.startswith("pairs: ") for stage in checked.stages)


def test_a_plan_is_a_forecast(tmp_path: Path) -> None:
    forecast = resemblance.plan(job(tmp_path / "out"), sample=10, tasks=4, progress=False)
    assert forecast["seconds"]["low"] <= forecast["seconds"]["value"] <= forecast["seconds"]["high"]
    assert forecast["documents"]["value"] == len(list(DOCUMENTS.glob("*.txt")))
    assert forecast["cluster"]["tasks"] == 4
    assert not (tmp_path / "out").exists()


def test_compare_and_sweep_give_what_they_measured(tmp_path: Path) -> None:
    plots = tmp_path / "plots"
    compared = resemblance.compare("jobs/quickstart.toml", documents=[5, 13], plots=plots)
    assert [sample["documents"] for sample in compared["samples"]] == [5, 13]
    assert (plots / "compare.html").is_file()
    swept = resemblance.sweep(
        "jobs/quickstart.toml", thresholds=[0.5, 0.75], sizes=[3], documents=[13], repeat=1, shingle__unit="word"
    )
    found = {of["threshold"]: of["pairs"] for of in swept["runs"][0]["found"]}
    assert found == {0.5: 7, 0.75: 5}
