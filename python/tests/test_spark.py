"""The public tables of an output, read as plain Parquet by Spark 4. Skipped where Spark or Java is missing."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import resemblance

from .conftest import missing

#: The oldest Java that Spark 4 runs on.
JAVA = 17


def java_version() -> int:
    """The first number of the version of `java`; 0 without Java."""
    if shutil.which("java") is None:
        return 0
    said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    quoted = said.split('"')
    return int(quoted[1].split(".")[0].split("-")[0]) if len(quoted) > 1 else 0


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        try:
            import pyspark
            from pyspark.sql import SparkSession
        except ImportError as error:
            missing(f"pyspark cannot be imported ({error}): pip install 'pyspark>=4'")
        if int(pyspark.__version__.split(".")[0]) < 4:
            missing(f"pyspark {pyspark.__version__} is older than 4: pip install 'pyspark>=4'")
        if java_version() < JAVA:
            missing(f"there is no Java {JAVA} or newer on the path")
        folder = tmp_path_factory.mktemp("spark")
        patch.chdir(folder)
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        settings = {
            "spark.ui.enabled": "false",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
        }
        builder = SparkSession.builder.master("local[2]").appName("resemblance")
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        yield session
        session.stop()


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> resemblance.Run:
    """An output with every table that a run can have of one source and known documents, and every column."""
    import pyarrow
    import pyarrow.parquet

    folder = tmp_path_factory.mktemp("output")

    def documents(name: str, first: int, count: int) -> Path:
        # Every document is like one that is known, or like its neighbour, and the last one is too short.
        texts = [" ".join(f"w{(first + i) // 3 * 7 + k}" for k in range(12)) + f" v{i % 3 // 2}" for i in range(count)]
        rows = {
            "id": [f"{name}{i:02}" for i in range(count + 1)],
            "text": [*texts, "short"],
            "shop": [["north", "south", None][i % 3] for i in range(count + 1)],
        }
        pyarrow.parquet.write_table(pyarrow.table(rows), folder / f"{name}.parquet")
        return folder / f"{name}.parquet"

    def job(name: str, source: Path) -> dict[str, Any]:
        return {
            "source": {"format": "parquet", "url": str(source), "id": "id", "text": "text", "group": "shop"},
            "shingle": {"size": 3, "short": "reject"},
            "score": {"threshold": 0.5},
            "output": {"url": str(folder / name), "keep": "shingles", "pair_passages": True},
        }

    known = resemblance.run(job("reference", documents("k", 0, 30)))
    return resemblance.run({**job("out", documents("n", 0, 45)), "against": {"output": known.output}})


def plain(value: Any) -> Any:
    """A value that two libraries give alike."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    return "nan" if isinstance(value, float) and math.isnan(value) else value


def rows_of(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(str({name: plain(value) for name, value in row.items()}) for row in rows)


def test_spark_reads_every_table(spark: Any, output: resemblance.Run) -> None:
    written = {"pairs", "clusters", "documents", "rejects", "group_pairs", "cluster_id_changes"}
    assert written <= set(output.tables)
    for name, table in output.tables.items():
        expected = table.to_arrow()
        found = spark.read.parquet(f"{output.output}/{name}")
        assert found.columns == expected.column_names, name
        assert rows_of([row.asDict() for row in found.collect()]) == rows_of(expected.to_pylist()), name
    assert all(len(output.tables[name]) > 0 for name in ("pairs", "clusters", "documents", "rejects", "group_pairs"))


def test_spark_reads_what_apply_removed(spark: Any, output: resemblance.Run, tmp_path: Path) -> None:
    applied = resemblance.apply(output, tmp_path / "to", progress=False)
    removed = spark.read.parquet(str(tmp_path / "to" / "_resemblance" / "removed"))
    assert removed.count() == applied.removed > 0
    assert removed.columns[-1] == "group" and removed.filter("`group` IS NULL").count() < applied.removed
    assert spark.read.parquet(str(tmp_path / "to")).count() == applied.kept + applied.rejected


def test_spark_reads_what_stays_of_its_legacy_form(spark: Any, tmp_path: Path) -> None:
    """Times of 96 bits far from now, decimals as bytes and lists of two levels, also with new columns."""
    source = tmp_path / "in"
    legacy = {"spark.sql.parquet.writeLegacyFormat": "true", "spark.sql.parquet.outputTimestampType": "INT96"}
    for name, value in legacy.items():
        spark.conf.set(name, value)
    try:
        spark.sql(
            """SELECT printf('d%03d', id) AS id, concat('w', id div 3, ' ', 'a b c d e f ', id div 3) AS text,
                timestamp_micros(id * 1000003) AS at, timestamp'9999-12-31 23:59:59.999999' AS last,
                timestamp'0001-01-01 00:00:00' AS first, cast(id / 7 AS decimal(20, 3)) AS large,
                cast(id / 7 AS decimal(5, 1)) AS small, array(id, NULL, id + 1) AS list,
                map('k', timestamp_micros(id)) AS map, named_struct('a', array(named_struct('b', id))) AS deep,
                IF(id % 3 = 0, NULL, date'1500-01-01') AS day
               FROM range(0, 60)"""
        ).coalesce(1).write.parquet(str(source))
    finally:
        for name in legacy:
            spark.conf.unset(name)
    job = {
        "source": {"format": "parquet", "url": f"{source}/*.parquet", "id": "id", "text": "text"},
        "shingle": {"size": 3},
        "score": {"threshold": 0.5},
        "output": {"url": str(tmp_path / "out")},
    }
    run = resemblance.run(job)
    gone = {row["id"] for row in run.tables["clusters"].to_arrow().to_pylist() if not row["representative"]}
    assert len(gone) > 20
    resemblance.apply(run, tmp_path / "to", progress=False)
    resemblance.apply(run, tmp_path / "marked", annotate=True, progress=False)

    def read(path: Path) -> list[dict[str, Any]]:
        # As text: Python has no year 0, where the first of the times is in some zones.
        rows = spark.read.parquet(str(path)).selectExpr("id", "CAST(struct(*) AS string) AS shown").collect()
        return [{"id": row["id"], "shown": row["shown"]} for row in rows]

    rows = read(source)
    assert "9999-12-31 23:59:59.999999" in rows[0]["shown"] and "0001-01-01 00:00:00" in rows[0]["shown"]
    assert read(tmp_path / "to") == [row for row in rows if row["id"] not in gone]
    columns = spark.read.parquet(str(source)).columns
    marked = spark.read.parquet(str(tmp_path / "marked"))
    assert marked.columns == [*columns, "cluster_id", "representative", "kept_id"]
    assert {row["id"] for row in marked.where("NOT representative").select("id").collect()} == gone
    shown = marked.selectExpr(f"CAST(struct({', '.join(columns)}) AS string) AS shown").collect()
    assert [row["shown"] for row in shown] == [row["shown"] for row in rows]
