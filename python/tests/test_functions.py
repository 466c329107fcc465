"""The SQL functions in sessions of the package `datafusion`: the same values as in the command, and as plain Python."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import resemblance
import resemblance.functions

from .conftest import REPOSITORY, missing, needs

#: One file for each function: queries with their answers, which the tests in Rust run too.
FILES = sorted((REPOSITORY / "tests" / "udf").glob("*.slt"))

TEXTS = [
    "the cat sat on the mat and looked out of the window",
    "The cat sat on the mat, and looked out of the window.",
    "the cat sat on the mat and looked out of the door",
    None,
    "nothing of the kind was ever seen in this house",
    "",
]


@pytest.fixture
def ctx() -> Any:
    datafusion = needs("datafusion")
    try:
        resemblance.functions.library()
    except FileNotFoundError as error:
        missing(str(error), expected=resemblance.functions.VARIABLE in os.environ)
    session = datafusion.SessionContext()
    resemblance.functions.register(session)
    return session


def rows(ctx: Any, query: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ctx.sql(query).to_arrow_table().to_pylist()
    return found


def records(file: Path) -> Iterator[tuple[str, str, list[str]]]:
    """The records of a file: the first line, the query and the lines of its answer."""
    for record in file.read_text(encoding="utf-8").split("\n\n"):
        lines = [line for line in record.splitlines() if not line.startswith("#")]
        if lines:
            query, _, answer = "\n".join(lines[1:]).partition("\n----\n")
            yield lines[0], query, answer.splitlines()


def cell(value: Any) -> str:
    """A value as the files write it."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    return (value.hex() if isinstance(value, bytes) else str(value)) or "(empty)"


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.stem))
def test_the_queries_of_each_function_have_the_answers_of_its_file(ctx: Any, file: Path) -> None:
    answered = refused = 0
    for first, query, answer in records(file):
        if first.startswith("query"):
            found = [" ".join(cell(value) for value in row.values()) for row in rows(ctx, query)]
            assert found == [" ".join(line.split()) for line in answer], query
            answered += 1
        else:
            message = first.removeprefix("statement error").strip() or None
            with pytest.raises(Exception, match=message):
                ctx.sql(query).collect()
            refused += 1
    assert answered > 4 and refused > 0


def test_batches_have_the_values_of_the_command_and_of_plain_sets(
    ctx: Any, quickstart: resemblance.Run
) -> None:
    table = pa.table({"id": pa.array(range(len(TEXTS)), pa.int64()), "text": pa.array(TEXTS, pa.string())})
    (whole,) = table.to_batches()
    # Batches of unequal sizes, and one without rows.
    ctx.register_record_batches("texts", [[whole.slice(0, 1), whole.slice(1, 3), whole.slice(4, 0)], [whole.slice(4)]])
    query = """
        sets AS (
            SELECT id, shingles(text, 'word', 3, 'xxh3', 'lowercase,letters-only,collapse-whitespace') AS s FROM texts
        ),
        sketches AS (SELECT id, s, minhash(s, 64, 7) AS m FROM sets)
        SELECT a.id AS id_a, b.id AS id_b, jaccard(a.s, b.s) AS jaccard, containment(a.s, b.s) AS containment,
               minhash_similarity(a.m, b.m) AS estimate, lsh_bands(a.m, 16, 4) AS bands
        FROM sketches a CROSS JOIN sketches b ORDER BY id_a, id_b"""
    found = rows(ctx, f"WITH {query}")
    assert len(found) == len(TEXTS) ** 2

    for row in found:
        a, b = (shingles(TEXTS[row[side]]) for side in ("id_a", "id_b"))
        assert row["jaccard"] == (len(a & b) / len(a | b) if a is not None and b is not None and a | b else None), row
        assert row["containment"] == (len(a & b) / len(a) if a and b is not None else None), row
        assert (row["bands"] is None) == (not a) and (row["estimate"] is None) == (not a or not b), row

    values = ", ".join(f"({n}, {'NULL' if text is None else repr(text)})" for n, text in enumerate(TEXTS))
    assert found == list(resemblance.sql(quickstart, f"WITH texts(id, text) AS (VALUES {values}), {query}"))


def shingles(text: str | None) -> set[tuple[str, ...]] | None:
    """The runs of three words of a text, in lower case and without punctuation."""
    if text is None:
        return None
    words = "".join(c if c.isalpha() else " " for c in text.lower()).split()
    return {tuple(words[at : at + 3]) for at in range(len(words) - 2)}


def test_the_example_of_the_page_prints_what_the_page_says(ctx: Any, capsys: pytest.CaptureFixture[str]) -> None:
    page = (REPOSITORY / "docs" / "sql.md").read_text(encoding="utf-8").split("## In Python", 1)[1]
    exec(page.split("```python\n", 1)[1].split("```", 1)[0], {})
    assert capsys.readouterr().out == page.split("```text\n", 1)[1].split("```", 1)[0]


def test_the_function_is_an_expression_too(ctx: Any) -> None:
    datafusion = needs("datafusion")
    frame = ctx.from_pydict({"a": [[1, 2, 3], None], "b": [[2, 3, 4], [1]]})
    col = datafusion.col
    found = frame.select(ctx.udf("jaccard")(col("a"), col("b")).alias("j")).to_pydict()
    assert found == {"j": [0.5, None]}


def test_sessions_and_functions_may_end_in_any_order(ctx: Any) -> None:
    datafusion = needs("datafusion")
    for _ in range(50):
        other = datafusion.SessionContext()
        resemblance.functions.register(other)
        resemblance.functions.register(other)
        del other
    assert rows(ctx, "SELECT jaccard([1, 2], [2]) AS j") == [{"j": 0.5}]


def test_a_setting_from_a_column_is_refused(ctx: Any) -> None:
    with pytest.raises(Exception, match="must be a literal whole number, the same for every row"):
        ctx.sql("SELECT minhash([1, 2], n, 42) FROM (VALUES (3), (4)) AS v(n)").collect()


def test_another_version_of_datafusion_is_refused(ctx: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    datafusion = needs("datafusion")
    monkeypatch.setattr(resemblance.functions, "version", lambda _: "54.1.0")
    with pytest.raises(ImportError, match=r"are built for datafusion 55, and 54\.1\.0 is installed"):
        resemblance.functions.register(datafusion.SessionContext())


def test_a_missing_library_says_how_to_build_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(resemblance.functions.VARIABLE, str(tmp_path / "none.so"))
    with pytest.raises(FileNotFoundError, match="none.so: build it with `cargo build --release -p resemblance-functions"):
        resemblance.functions.library()


def test_the_module_needs_no_datafusion_until_it_registers() -> None:
    code = "import sys, resemblance.functions; assert 'datafusion' not in sys.modules"
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "python")}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_the_library_has_no_function_behind_the_last_one(ctx: Any) -> None:
    library = ctypes.CDLL(str(resemblance.functions.library()))
    library.resemblance_function.restype = ctypes.c_void_p
    library.resemblance_function.argtypes = [ctypes.c_size_t]
    found = [number for number in range(100) if library.resemblance_function(number)]
    assert found == list(range(len(FILES)))
