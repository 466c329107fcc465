"""Outputs whose tables are Delta tables, read by libraries that know Delta, and by one that adds them to Iceberg."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.compute
import pyarrow.parquet
import pytest

import resemblance

from .conftest import missing, needs

TABLES = ("pairs", "clusters", "documents", "rejects")

#: What the tables carry, besides their own columns, in the tests that read them.
CARRIED = {
    "stars, of five": pyarrow.int8(),
    "price": pyarrow.decimal128(12, 2),
    "day": pyarrow.date32(),
    "at": pyarrow.timestamp("us", tz="UTC"),
    "local": pyarrow.timestamp("ms"),
    "share": pyarrow.float32(),
    "new": pyarrow.bool_(),
}


def rows_of(table: pyarrow.Table) -> list[str]:
    """Rows of any column types, as text in an order of their own."""
    return sorted(str({name: plain(value) for name, value in row.items()}) for row in table.to_pylist())


def plain(value: Any) -> Any:
    """The same point in time, whatever library's class it has."""
    return value.isoformat() if hasattr(value, "isoformat") else value


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents, some of them near-duplicates and one too short, with a column of every type in `CARRIED`."""
    texts = [" ".join(f"w{(i // 3) * 7 + k}" for k in range(12)) + f" v{i % 3 // 2}" for i in range(60)] + ["short"]
    count = len(texts)
    columns: dict[str, Any] = {"id": [f"d{i:02}" for i in range(count)], "text": texts}
    for name, kind in CARRIED.items():
        first = "int64" if pyarrow.types.is_timestamp(kind) else "int32"
        columns[name] = pyarrow.array([None if i == 3 else i % 2 for i in range(count)], first).cast(kind)
    path = tmp_path_factory.mktemp("lakehouse") / "in.parquet"
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


def job(source: Path, output: Path) -> dict[str, Any]:
    return {
        "source": {"format": "parquet", "url": str(source), "id": "id", "text": "text", "columns": list(CARRIED)},
        "shingle": {"size": 3, "short": "reject"},
        "score": {"threshold": 0.5},
        "output": {"url": str(output), "tables": "delta", "keep": "shingles"},
    }


@pytest.fixture(scope="module")
def run(source: Path, tmp_path_factory: pytest.TempPathFactory) -> resemblance.Run:
    run = resemblance.run(job(source, tmp_path_factory.mktemp("lakehouse") / "out"))
    assert len(run.pairs) > 0 and len(run.tables["rejects"]) == 1
    return run


def folder(run: resemblance.Output, name: str) -> str:
    return f"{run.output}/{name}"


def with_microseconds(table: pyarrow.Table) -> pyarrow.Table:
    """The table with the one unit that Delta has for timestamps."""
    fields = []
    for field in table.schema:
        if pyarrow.types.is_timestamp(field.type):
            field = field.with_type(pyarrow.timestamp("us", tz=field.type.tz))
        fields.append(field)
    return table.cast(pyarrow.schema(fields))


@pytest.mark.parametrize("name", TABLES)
def test_deltalake(run: resemblance.Run, name: str) -> None:
    deltalake = needs("deltalake")
    table = deltalake.DeltaTable(folder(run, name))
    assert table.version() == 0
    expected = with_microseconds(run.tables[name].to_arrow())
    found = table.to_pyarrow_table()
    assert found.column_names == expected.column_names
    assert rows_of(found) == rows_of(expected)
    builder = deltalake.QueryBuilder().register("t", table)
    counted = pyarrow.table(builder.execute("SELECT count(*) AS n FROM t").read_all())
    assert counted["n"].to_pylist() == [len(run.tables[name])]
    assert table.history()[0]["engineInfo"].startswith("resemblance ")


@pytest.mark.parametrize("name", TABLES)
def test_polars(run: resemblance.Run, name: str) -> None:
    polars = needs("polars")
    needs("deltalake")
    found = polars.scan_delta(folder(run, name)).collect()
    expected = run.tables[name].to_polars()
    # Polars has no dates with a unit other than that of the table: the numbers are the same.
    expected = expected.cast({at: found.schema[at] for at in ("at", "local") if at in expected.columns})
    key = [column for column in expected.columns if expected.schema[column] == polars.String]
    assert found.sort(key).equals(expected.sort(key))
    assert polars.scan_delta(folder(run, name)).select(polars.len()).collect().item() == len(run.tables[name])


def test_duckdb(run: resemblance.Run) -> None:
    duckdb = needs("duckdb")
    con = duckdb.connect()
    # The pattern does not match the log.
    files = f"read_parquet('{run.output}/pairs/*.parquet')"
    expected = rows_of(run.pairs.to_arrow())
    assert rows_of(pyarrow.table(con.sql(f"FROM {files}").arrow())) == expected
    try:
        con.execute("INSTALL delta")
        con.execute("LOAD delta")
    except duckdb.Error as error:
        missing(f"the extension of DuckDB for Delta, after read_parquet was tried ({str(error).splitlines()[0]})")
    assert rows_of(pyarrow.table(con.sql(f"FROM delta_scan('{run.output}/pairs')").arrow())) == expected


def test_a_result_that_is_replaced_is_version_1(source: Path, tmp_path: Path) -> None:
    deltalake = needs("deltalake")
    first = resemblance.run(job(source, tmp_path / "out"))
    pairs = deltalake.DeltaTable(folder(first, "pairs"))
    assert pairs.version() == 0
    second = resemblance.run(job(source, tmp_path / "out"), overwrite=True, score__threshold=0.95)
    pairs.update_incremental()
    assert pairs.version() == 1
    assert rows_of(pairs.to_pyarrow_table()) == rows_of(second.pairs.to_arrow())
    assert [entry["version"] for entry in pairs.history()] == [1, 0]
    polars = needs("polars")
    assert polars.scan_delta(folder(second, "pairs")).collect().height == len(second.pairs)
    # A checkpoint, which other writers put into the log's folder, does not prevent the next version.
    pairs.create_checkpoint()
    third = resemblance.run(job(source, tmp_path / "out"), overwrite=True)
    again = deltalake.DeltaTable(folder(third, "pairs"))
    assert again.version() == 2
    assert rows_of(again.to_pyarrow_table()) == rows_of(third.pairs.to_arrow())


def test_vacuum_finds_nothing_and_what_deltalake_deletes_is_deleted(source: Path, tmp_path: Path) -> None:
    deltalake = needs("deltalake")
    run = resemblance.run(job(source, tmp_path / "out"))
    clusters = deltalake.DeltaTable(folder(run, "clusters"))
    assert clusters.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=True) == []
    clusters.delete("representative")
    assert clusters.version() == 1
    assert not any(clusters.to_pyarrow_table()["representative"].to_pylist())
    # The output is finished, and the log has it: later changes to the table stay.
    assert resemblance.run(job(source, tmp_path / "out")).already_finished
    assert deltalake.DeltaTable(folder(run, "clusters")).version() == 1
    resemblance.verify(run)
    resemblance.run(job(source, tmp_path / "out"), overwrite=True)
    clusters = deltalake.DeltaTable(folder(run, "clusters"))
    assert clusters.version() == 2
    assert rows_of(clusters.to_pyarrow_table()) == rows_of(resemblance.open(run.output).clusters.to_arrow())


def test_iceberg_adds_the_files(run: resemblance.Run, tmp_path: Path) -> None:
    catalogs = needs("pyiceberg.catalog.sql")
    catalog = catalogs.SqlCatalog(
        "local", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse"
    )
    catalog.create_namespace("similar")
    for name in ("pairs", "clusters"):
        written = run.tables[name]
        table = catalog.create_table(f"similar.{name}", schema=written.dataset().schema)
        table.add_files([f"{run.output}/{file}" for file in written.files])
        assert rows_of(table.scan().to_arrow()) == rows_of(written.to_arrow())
