"""Where the command is looked for."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

import pytest

import resemblance


def put(folder: Path, executable: bool = True) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "resemblance"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755 if executable else 0o644)
    return os.fspath(path)


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """An environment's folder of commands, that of the user, and the path, all of them empty."""
    found = {name: tmp_path / name for name in ("environment", "user", "path")}
    monkeypatch.delenv("RESEMBLANCE_BIN", raising=False)
    monkeypatch.setenv("PATH", os.fspath(found["path"]))

    def get_path(name: str, scheme: str = "") -> str:
        assert name == "scripts"
        return os.fspath(found["user" if scheme else "environment"])

    monkeypatch.setattr(sysconfig, "get_path", get_path)
    return found


def test_the_nearest_command_is_taken(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(resemblance.CommandNotFound, match="set RESEMBLANCE_BIN") as raised:
        resemblance.command()
    assert os.fspath(folders["environment"]) in str(raised.value) and raised.value.exit_code == 127
    for name in ("path", "user", "environment"):
        path = put(folders[name])
        assert resemblance.command() == path
    named = put(folders["path"] / "deeper")
    monkeypatch.setenv("RESEMBLANCE_BIN", named)
    assert resemblance.command() == named


def test_a_file_that_cannot_be_run_is_passed_over(folders: dict[str, Path]) -> None:
    put(folders["environment"], executable=False)
    expected = put(folders["path"])
    assert resemblance.command() == expected


@pytest.mark.parametrize("named", ["missing", "a/folder"])
def test_what_the_environment_names_must_be_there(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    (tmp_path / "a" / "folder").mkdir(parents=True)
    put(folders["environment"])
    monkeypatch.setenv("RESEMBLANCE_BIN", os.fspath(tmp_path / named))
    with pytest.raises(resemblance.CommandNotFound, match=f"RESEMBLANCE_BIN names .*{named}"):
        resemblance.command()
