"""Errors: each exit code is a class of its own, with the message that the command wrote."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any, Callable

import pytest

import resemblance

from .conftest import DOCUMENTS


def job(output: Path, **source: Any) -> dict[str, Any]:
    return {
        "source": {"format": "text", "url": f"{DOCUMENTS}/*.txt", **source},
        "shingle": {"size": 3},
        "score": {"threshold": 0.5},
        "output": {"url": output},
    }


def test_a_wrong_key_of_a_job_is_a_job_error(tmp_path: Path) -> None:
    with pytest.raises(resemblance.JobError) as raised:
        resemblance.check(job(tmp_path / "out", colums=["a"]))
    error = raised.value
    assert error.exit_code == 2
    # A dict has no file and no lines that the user could look at.
    assert error.message.startswith("the job: ") and ".toml" not in str(error)
    assert "unknown key `colums`" in error.message and "did you mean `columns`?" in error.message


def test_a_wrong_setting_is_a_job_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(resemblance.JobError, match="`score.threshold` is 2") as raised:
        resemblance.run(job(tmp_path / "out"), score__threshold=2.0)
    assert raised.value.message.startswith("--set `score.threshold` is 2")


def test_a_wrong_argument_is_a_job_error(tmp_path: Path) -> None:
    with pytest.raises(resemblance.JobError, match="'--documents <N>'"):
        resemblance.generate(tmp_path / "corpus", documents=0)


def test_columns_of_files_are_named_by_arguments(tmp_path: Path) -> None:
    (tmp_path / "two.csv").write_text("a,b\nsome text of one,another one\nmore of it,and of this\n")
    with pytest.raises(resemblance.JobError, match="several columns of strings: name the column with the texts as text=;"):
        resemblance.find(tmp_path / "two.csv", progress=False)
    with pytest.raises(resemblance.JobError, match="as text=;"):
        resemblance.dedup(tmp_path / "two.csv", dry_run=True, progress=False)


def test_a_job_file_that_is_missing_or_cannot_be_read_is_a_job_error(tmp_path: Path) -> None:
    with pytest.raises(resemblance.JobError, match="there is no `.*missing.toml`"):
        resemblance.run(tmp_path / "missing.toml")
    (tmp_path / "missing.toml").write_bytes(b"\xff")
    with pytest.raises(resemblance.JobError, match="cannot read the job file") as raised:
        resemblance.run(tmp_path / "missing.toml")
    error = raised.value
    assert len(error.causes) == 1 and "UTF-8" in error.causes[0]
    assert str(error) == f"{error.message}\n  because: {error.causes[0]}"


def test_an_input_that_is_missing_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(resemblance.InputError, match="there is no `.*nowhere/`") as raised:
        resemblance.run(job(tmp_path / "out", url=f"{tmp_path}/nowhere/"))
    assert raised.value.exit_code == 3


def test_a_limit_that_is_met_is_an_engine_error(tmp_path: Path) -> None:
    with pytest.raises(resemblance.EngineError, match="output.max_pairs allows 1") as raised:
        resemblance.run(job(tmp_path / "out"), output__max_pairs=1)
    assert raised.value.exit_code == 4


def test_an_unknown_id_is_answered_with_near_ones(quickstart: resemblance.Run) -> None:
    with pytest.raises(resemblance.JobError, match="near it is `garden.txt`"):
        resemblance.neighbors(quickstart, id="gardn.txt")


def test_a_query_that_cannot_be_planned_is_a_job_error(quickstart: resemblance.Run) -> None:
    with pytest.raises(resemblance.JobError) as raised:
        resemblance.sql(quickstart, "SELECT no_such_column FROM pairs")
    assert any("no_such_column" in said for said in (raised.value.message, *raised.value.causes))


def test_an_output_that_is_not_finished_is_an_input_error(tmp_path: Path) -> None:
    said = set()
    for attempt in (resemblance.open, resemblance.verify):
        with pytest.raises(resemblance.InputError) as raised:
            attempt(tmp_path)
        said.add(str(raised.value))
    # An output that is opened in Python reports what the command would have reported.
    assert len(said) == 1 and "holds no finished output" in said.pop()


@pytest.mark.parametrize(
    ("kind", "exit_code"),
    [
        (resemblance.JobError, 2),
        (resemblance.InputError, 3),
        (resemblance.EngineError, 4),
        (resemblance.BugError, 5),
        (resemblance.AlarmError, 6),
        (resemblance.Interrupted, 130),
        (resemblance.ResemblanceError, 77),
    ],
)
def test_the_exit_code_chooses_the_class(stand_in: Callable[[str], Path], kind: type, exit_code: int) -> None:
    """A bug, for one, is not had for the asking."""
    line = json.dumps(
        {"level": "ERROR", "fields": {"message": "it broke\n  because: of\ntwo lines", "exit_code": exit_code}}
    )
    stand_in(f"import sys; print({line!r}, file=sys.stderr); sys.exit({exit_code})")
    with pytest.raises(resemblance.ResemblanceError) as raised:
        resemblance.check({})
    error = raised.value
    assert type(error) is kind and error.exit_code == exit_code
    assert (error.message, error.causes) == ("it broke", ("of\ntwo lines",))


def test_an_end_without_a_message_shows_what_was_written(
    stand_in: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in("import os, sys; print('memory allocation failed', file=sys.stderr, flush=True); os.abort()")
    with pytest.raises(resemblance.ResemblanceError) as raised:
        resemblance.find("a.txt")
    assert raised.value.exit_code == 128 + 6
    assert str(raised.value) == "resemblance was killed by SIGABRT: memory allocation failed"
    assert capsys.readouterr().err == "memory allocation failed\n"


def test_errors_can_be_sent_to_another_process() -> None:
    error = resemblance.EngineError("no memory", ["too little"], 4)
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.exit_code) == (resemblance.EngineError, str(error), 4)
