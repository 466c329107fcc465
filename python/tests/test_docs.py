"""The examples of docs/python.md, run in their order as one program."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import resemblance

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


def test_the_first_example_of_the_readme_is_the_same_in_python(tmp_path: Path) -> None:
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    printed = readme.split("\n```text\n")[1].split("```")[0]
    rows = [line.strip("| ").split("|") for line in printed.splitlines()[2:] if line.startswith("|")]
    expected = [(a.strip(), b.strip(), float(jaccard)) for a, b, jaccard, *_ in rows]
    cats = REPOSITORY / "jobs" / "cats.csv"
    found = resemblance.find(cats, progress=False)
    assert [(pair.id_a, pair.id_b, round(pair.jaccard, 6)) for pair in found] == expected
    source = {"url": str(cats), "id": "id", "text": "text"}
    run = resemblance.run({"source": source, "output": {"url": str(tmp_path / "out")}}, progress=False)
    pairs = run.pairs.to_arrow().to_pylist()
    assert {(pair["id_a"], pair["id_b"], round(pair["jaccard"], 6)) for pair in pairs} == set(expected)
