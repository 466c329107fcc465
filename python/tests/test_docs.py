"""The examples of docs/python.md, run in their order as one program."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from .conftest import DOCUMENTS, REPOSITORY, needs

PAGE = REPOSITORY / "docs" / "python.md"
#: A block of Python, and behind it the block of text that it prints, where there is one.
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
#: What an example may need besides the package.
LIBRARIES = ("pandas", "polars", "duckdb")


def test_the_examples_run_and_print_what_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(DOCUMENTS, tmp_path / "jobs" / "quickstart")
    shutil.copy(REPOSITORY / "jobs" / "quickstart.toml", tmp_path / "jobs")
    monkeypatch.chdir(tmp_path)
    for library in LIBRARIES:
        needs(library)
    page = PAGE.read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    blocks = list(BLOCK.finditer(page))
    assert len(blocks) == page.count("```python\n") > 5
    for block in blocks:
        line = page[: block.start()].count("\n") + 2
        # The lines of a traceback are those of the page.
        code = compile("\n" * (line - 1) + block.group(1), str(PAGE), "exec")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, names)
        if block.group(2) is not None:
            assert printed.getvalue() == block.group(2), f"the example on line {line}"
