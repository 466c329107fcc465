"""Delta tables that `deltalake` wrote as sources: their newest versions are read, whatever was done to them before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

import resemblance

from .conftest import needs

deltalake = needs("deltalake")


def documents(first: int, count: int, day: str = "a") -> pyarrow.Table:
    """Documents in groups of three similar ones."""
    numbers = range(first, first + count)
    texts = [" ".join(f"w{(i // 3) * 7 + k}" for k in range(12)) + f" v{i % 3 // 2}" for i in numbers]
    ids = [f"d{i:03}" for i in numbers]
    return pyarrow.table({"id": ids, "text": texts, "n": pyarrow.array(numbers), "day": [day] * count})


def job(table: Path, output: Path) -> dict[str, Any]:
    return {
        "source": {"format": "delta", "url": str(table), "id": "id", "text": "text", "columns": "n"},
        "shingle": {"size": 3},
        "score": {"threshold": 0.5},
        "output": {"url": str(output)},
    }


def rows_of(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(map(str, rows))


def check(table: Path, folder: Path) -> resemblance.Run:
    """Runs a job over the table, and one over its rows as `deltalake` reads them, in a file of their own: both find the same."""
    delta = deltalake.DeltaTable(table)
    rows = pyarrow.table(delta.to_pyarrow_table())
    folder.mkdir()
    pyarrow.parquet.write_table(rows, folder / "rows.parquet")
    plain = job(folder / "rows.parquet", folder / "plain")
    plain["source"]["format"] = "parquet"
    expected = resemblance.run(plain)
    run = resemblance.run(job(table, folder / "out"))
    assert len(expected.pairs) > 0
    for name in ("pairs", "clusters"):
        assert rows_of(run.tables[name].to_arrow().to_pylist()) == rows_of(expected.tables[name].to_arrow().to_pylist())
    found, of_rows = (of.tables["documents"].to_arrow().select(["id", "n"]) for of in (run, expected))
    assert rows_of(found.to_pylist()) == rows_of(of_rows.to_pylist())
    assert len(found) == len(rows)
    return run


def test_versions_deletes_overwrites_and_a_checkpoint(tmp_path: Path) -> None:
    table = tmp_path / "table"
    deltalake.write_deltalake(table, documents(0, 30))
    deltalake.write_deltalake(table, documents(30, 30), mode="append")
    first = check(table, tmp_path / "appended")
    delta = deltalake.DeltaTable(table)
    delta.delete("n % 5 = 0")
    with pytest.raises(resemblance.JobError, match="overwrite"):
        resemblance.run(job(table, Path(first.output)))
    check(table, tmp_path / "deleted")
    delta.create_checkpoint()
    check(table, tmp_path / "at-the-checkpoint")
    deltalake.write_deltalake(table, documents(60, 12), mode="append")
    check(table, tmp_path / "behind-the-checkpoint")
    # As a cleanup of the log leaves it: nothing but the checkpoint and what is behind it.
    for commit in sorted((table / "_delta_log").glob("*.json"))[:3]:
        commit.unlink()
    check(table, tmp_path / "without-commits")
    deltalake.write_deltalake(table, documents(100, 21), mode="overwrite")
    check(table, tmp_path / "overwritten")
    deltalake.DeltaTable(table).optimize.compact()
    check(table, tmp_path / "compacted")


def test_partitions_with_any_names(tmp_path: Path) -> None:
    table = tmp_path / "table"
    for first, day in enumerate(["a b", "50%", "x/y", "ü=&"]):
        rows = documents(first * 12, 12, day)
        deltalake.write_deltalake(table, rows, mode="append", partition_by=["day"])
    run = check(table, tmp_path / "out")
    asked = job(table, tmp_path / "days")
    asked["source"]["columns"] = ["n", "day"]
    asked["source"]["where"] = "day IN ('a b', 'x/y')"
    days = resemblance.run(asked).documents.to_arrow()["day"].to_pylist()
    assert sorted(days) == ["a b"] * 12 + ["x/y"] * 12
    applied = resemblance.apply(run, tmp_path / "to", progress=False)
    kept = {row for file in (tmp_path / "to").rglob("*.parquet") for row in ids(file)}
    gone = {row["id"] for row in run.clusters.to_arrow().to_pylist() if not row["representative"]}
    assert applied.removed == len(gone) > 0
    assert kept == set(deltalake.DeltaTable(table).to_pyarrow_table()["id"].to_pylist()) - gone


def ids(file: Path) -> list[str]:
    found: list[str] = pyarrow.parquet.ParquetFile(file).read(["id"])["id"].to_pylist()
    return found


def test_own_tables(tmp_path: Path) -> None:
    """A table that this program wrote is a source too."""
    table = tmp_path / "table"
    deltalake.write_deltalake(table, documents(0, 30))
    made = job(table, tmp_path / "out")
    made["output"]["tables"] = "delta"
    run = resemblance.run(made)
    again = job(Path(run.output) / "documents", tmp_path / "again")
    again["source"].update({"text": "id", "columns": []})
    again["source"].pop("columns")
    again["shingle"] = {"unit": "char", "size": 2}
    assert len(resemblance.run(again).tables["documents"]) == 30


def test_what_apply_writes(tmp_path: Path) -> None:
    """The rows that stay, and the documents that go, are what deltalake reads; and they are a source again."""
    table = tmp_path / "table"
    deltalake.write_deltalake(table, documents(0, 30, "a b"))
    deltalake.write_deltalake(table, documents(30, 30), mode="append")
    deltalake.DeltaTable(table).delete("n = 7")
    run = resemblance.run(job(table, tmp_path / "out"))
    to = tmp_path / "to"
    applied = resemblance.apply(run, to, tables="delta", progress=False)
    gone = {row["id"] for row in run.clusters.to_arrow().to_pylist() if not row["representative"]}
    rows = pyarrow.table(deltalake.DeltaTable(table).to_pyarrow_table()).to_pylist()
    kept = deltalake.DeltaTable(to)
    found = pyarrow.table(kept.to_pyarrow_table())
    assert rows_of(found.to_pylist()) == rows_of([row for row in rows if row["id"] not in gone])
    assert found.column_names == ["id", "text", "n", "day"] and kept.version() == 0
    removed = pyarrow.table(deltalake.DeltaTable(to / "_resemblance" / "removed").to_pyarrow_table())
    assert set(removed["id"].to_pylist()) == gone and len(removed) == applied.removed > 0
    # What is added to it later is of the same table.
    deltalake.write_deltalake(to, documents(60, 3), mode="append")
    assert len(resemblance.run(job(to, tmp_path / "again")).tables["documents"]) == applied.kept + 3
    with pytest.raises(resemblance.JobError, match="tables delta"):
        text = resemblance.run("jobs/quickstart.toml", output__url=tmp_path / "quickstart")
        resemblance.apply(text, tmp_path / "text", tables="delta")
