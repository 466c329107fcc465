"""What `apply` makes of Parquet files of other programs: every column of every type as it was, also with new columns.

Each file is written by one library and compared by another one, and its schema and metadata by the first."""

from __future__ import annotations

import datetime
import decimal
import json
import uuid
from pathlib import Path
from typing import Any, Callable

import pyarrow
import pyarrow.compute
import pyarrow.parquet
import pytest

import resemblance

from .conftest import needs

COUNT = 60

TEXTS = [" ".join(f"w{i // 3 * 7 + k}" for k in range(12)) + f" v{i % 3 // 2}" for i in range(COUNT)]


def some(values: Callable[[int], Any]) -> list[Any]:
    """A value for each document, and null for some."""
    return [None if i % 7 == 3 else values(i) for i in range(COUNT)]


def day(i: int) -> datetime.date:
    return datetime.date(1, 1, 1) if i % 5 == 0 else datetime.date(9999, 12, 31 - i % 20)


def moment(i: int) -> datetime.datetime:
    return datetime.datetime(1969, 12, 31, 23, 59, 59, i * 1000) + datetime.timedelta(days=i * 400)


def documents() -> dict[str, Any]:
    return {"id": [f"d{i:02}" for i in range(COUNT)], "text": TEXTS}


def arrow_columns() -> dict[str, pyarrow.Array]:
    numbers = {
        kind: some(lambda i: i % 100)
        for kind in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
    }
    columns = {kind: pyarrow.array(values, kind) for kind, values in numbers.items()}
    array = pyarrow.array
    columns |= {
        "half": array(some(lambda i: i / 8), pyarrow.float16()),
        "float": array(some(lambda i: i / 3), pyarrow.float32()),
        "double": array(some(lambda i: -0.0 if i % 2 else float("inf")), pyarrow.float64()),
        "flag": array(some(lambda i: i % 2 == 0)),
        "binary": array(some(lambda i: bytes([i, 0, 255])), pyarrow.binary()),
        "large_text": array(some(lambda i: f"\u00e9{i}"), pyarrow.large_string()),
        "view": array(some(lambda i: f"a text that is longer than twelve {i}"), pyarrow.string_view()),
        "fixed": array(some(lambda i: bytes([i] * 5)), pyarrow.binary(5)),
        "decimal32": array(some(lambda i: decimal.Decimal(i) / 100), pyarrow.decimal128(7, 2)),
        "decimal128": array(some(lambda i: decimal.Decimal(10) ** 30 + i), pyarrow.decimal128(38, 3)),
        "decimal256": array(some(lambda i: decimal.Decimal(10) ** 60 + i), pyarrow.decimal256(76, 2)),
        "date32": array(some(day), pyarrow.date32()),
        "date64": array(some(day), pyarrow.date64()),
        "time32": array(some(lambda i: i * 1000), pyarrow.time32("ms")),
        "time_of_seconds": array(some(lambda i: i), pyarrow.time32("s")),
        "time64": array(some(lambda i: i), pyarrow.time64("ns")),
        "seconds": array(some(lambda i: i * 10**9), pyarrow.timestamp("s", "Europe/Berlin")),
        "micros": array(some(moment), pyarrow.timestamp("us", "America/New_York")),
        "nanos": array(some(lambda i: i * 10**15 + i), pyarrow.timestamp("ns", "Asia/Kolkata")),
        "local": array(some(moment), pyarrow.timestamp("ms")),
        "duration": array(some(lambda i: i * 10**6), pyarrow.duration("us")),
        "word": array(some(lambda i: "xyz"[i % 3])).dictionary_encode(),
        "null": pyarrow.nulls(COUNT),
        "list": array(some(lambda i: [None if n == 1 else n for n in range(i % 4)]), pyarrow.list_(pyarrow.int16())),
        "large_list": array(some(lambda i: [f"{n}" for n in range(i % 3)]), pyarrow.large_list(pyarrow.string())),
        "three": array(some(lambda i: [i, i + 1, i + 2]), pyarrow.list_(pyarrow.int32(), 3)),
        "map": array(
            some(lambda i: [(f"k{n}", n) for n in range(i % 3)]), pyarrow.map_(pyarrow.string(), pyarrow.int64())
        ),
        "struct": array(
            some(lambda i: {"at": moment(i), "deep": [{"d": decimal.Decimal(i)}] * (i % 3)}),
            pyarrow.struct(
                [
                    ("at", pyarrow.timestamp("us")),
                    ("deep", pyarrow.list_(pyarrow.struct([("d", pyarrow.decimal128(20, 1))]))),
                ]
            ),
        ),
        "uuid": pyarrow.ExtensionArray.from_storage(
            pyarrow.uuid(), array(some(lambda i: uuid.UUID(int=i).bytes), pyarrow.binary(16))
        ),
    }
    return columns


def by_pyarrow(path: Path) -> None:
    columns = documents() | arrow_columns()
    table = pyarrow.table(columns)
    fields = [field.with_metadata({"comment": f"about {field.name}"}) for field in table.schema]
    metadata = {"writer": "of a test", "pandas": '{"columns": [], "index_columns": []}'}
    table = table.cast(pyarrow.schema(fields, metadata=metadata))
    pyarrow.parquet.write_table(table, path, row_group_size=25, compression="zstd", write_page_index=True)


def by_pyarrow_of_before(path: Path) -> None:
    """INT96, lists whose elements are called `item`, and no Arrow schema: what Spark and Hive left behind."""
    columns = {
        name: values for name, values in arrow_columns().items() if name in ("date32", "local", "list", "map", "struct")
    }
    table = pyarrow.table(documents() | columns)
    fields = [
        {"name": "id", "type": "string", "nullable": True, "metadata": {}},
        {"name": "text", "type": "string", "nullable": True, "metadata": {}},
    ]
    spark = {
        "org.apache.spark.version": "2.4.8",
        "org.apache.spark.legacyINT96": "",
        "org.apache.spark.sql.parquet.row.metadata": json.dumps({"type": "struct", "fields": fields}),
    }
    options: dict[str, Any] = {
        "version": "1.0",
        "use_deprecated_int96_timestamps": True,
        "use_compliant_nested_type": False,
        "data_page_version": "2.0",
        "store_schema": False,
    }
    with pyarrow.parquet.ParquetWriter(path, table.schema, **options) as writer:
        writer.write_table(table, row_group_size=25)
        writer.add_key_value_metadata(spark)


def by_duckdb(path: Path) -> None:
    duckdb = needs("duckdb")
    frame = pyarrow.table(documents() | {"n": list(range(COUNT))})
    duckdb.from_arrow(frame).query(
        "documents",
        """SELECT id, text, n::HUGEINT AS huge, n::UBIGINT AS big, n::UTINYINT AS tiny,
            INTERVAL (n) MONTH + INTERVAL (n) DAY + INTERVAL (n) SECOND AS span, uuid() AS uuid,
            (n / 7)::DECIMAL(4, 1) AS small_decimal, (n / 7)::DECIMAL(38, 5) AS large_decimal,
            INTERVAL (n % 3) MONTH AS months, DATE '0001-01-01' + n::INTEGER AS day, TIME '01:02:03.000004' AS clock, TIMETZ '01:02:03+02' AS clock_tz,
            TIMESTAMP '9999-12-31 23:59:59.999999' AS last, TIMESTAMP_NS '2026-01-01 00:00:00.000000001' AS nanos,
            TIMESTAMPTZ '1500-01-01 00:00:00+00' AS old, '{"n": 1}'::JSON AS json, '\\xAA\\x00'::BLOB AS blob,
            (['a', 'b', 'c'])[n % 3 + 1]::ENUM('a', 'b', 'c') AS kind, '101'::BIT AS bits,
            [n, NULL, n + 1] AS list, [[n]] AS lists, CASE WHEN n % 5 = 0 THEN [] END AS empty,
            MAP {'k': n} AS map, {'a': n, 'b': [{'c': INTERVAL (n) MONTH}]} AS struct, NULL AS nothing
           FROM documents ORDER BY id""",
    ).write_parquet(str(path), row_group_size=25, compression="zstd")


def by_polars(path: Path) -> None:
    polars = needs("polars")
    frame = polars.DataFrame(documents() | {"n": list(range(COUNT))})
    n = polars.col("n")
    frame = frame.with_columns(
        int128=n.cast(polars.Int128) * 10**25,
        word=(n % 3).cast(polars.String).cast(polars.Categorical),
        kind=(n % 3).cast(polars.String).cast(polars.Enum(["0", "1", "2"])),
        duration=(n * 1000).cast(polars.Duration("us")),
        at=(n * 10**15).cast(polars.Datetime("ns", "Europe/Paris")),
        clock=(n * 10**9).cast(polars.Time),
        decimal=n.cast(polars.Decimal(30, 4)),
        pair=polars.concat_list(n, n + 1).list.to_array(2),
        list=polars.when(n % 4 == 0).then(None).otherwise(polars.concat_list(n, n)),
        struct=polars.struct(n, b=n.cast(polars.String)),
        small=n.cast(polars.Int8),
        nothing=polars.lit(None),
    )
    frame.write_parquet(path, row_group_size=25, metadata={"owner": "somebody"})


WRITERS = [by_pyarrow, by_pyarrow_of_before, by_duckdb, by_polars]


def read_by_duckdb(path: Path) -> list[dict[str, Any]]:
    duckdb = needs("duckdb")
    # As text: DuckDB has values that are no objects of Python.
    query = f"SELECT CAST(COLUMNS(*) AS VARCHAR) FROM read_parquet('{path}')"
    found = duckdb.connect().execute("SET TimeZone = 'UTC'").execute(query)
    names = [column[0] for column in found.description]
    return [dict(zip(names, row)) for row in found.fetchall()]


def read_by_pyarrow(path: Path) -> list[dict[str, Any]]:
    table = pyarrow.parquet.read_table(path)
    return [{name: str(table[name][row]) for name in table.column_names} for row in range(len(table))]


READERS = {
    by_pyarrow: read_by_duckdb,
    by_pyarrow_of_before: read_by_duckdb,
    by_duckdb: read_by_pyarrow,
    by_polars: read_by_duckdb,
}


def footer(path: Path) -> tuple[list[Any], dict[bytes, bytes]]:
    """Each node of the schema, and the key-value metadata."""
    duckdb = needs("duckdb")
    # What a type was called before it had a logical type is written also where the file did not say it.
    nodes = duckdb.sql(
        f"""SELECT * EXCLUDE (file_name, num_children, converted_type),
                CASE WHEN logical_type IS NULL THEN converted_type END AS converted_type
            FROM parquet_schema('{path}')"""
    ).fetchall()
    pairs = duckdb.sql(f"SELECT key, value FROM parquet_kv_metadata('{path}')")
    # The root is no column: some say that it is required, and others say nothing.
    return nodes[1:], dict(pairs.fetchall())


@pytest.fixture(scope="module", params=WRITERS, ids=lambda writer: writer.__name__)
def applied(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Any, Path, Path, Path, set[str]]:
    """A writer, its file, what stays of it, the file with new columns, and the ids that go."""
    folder = tmp_path_factory.mktemp(request.param.__name__)
    source = folder / "in.parquet"
    request.param(source)
    job = {
        "source": {"format": "parquet", "url": str(source), "id": "id", "text": "text"},
        "shingle": {"size": 3},
        "score": {"threshold": 0.5},
        "output": {"url": str(folder / "out")},
    }
    run = resemblance.run(job)
    resemblance.apply(run, folder / "to", progress=False)
    resemblance.apply(run, folder / "marked", annotate=True, progress=False)
    clusters = run.tables["clusters"].to_arrow().to_pylist()
    gone = {row["id"] for row in clusters if not row["representative"]}
    assert len(gone) > 20
    return request.param, source, folder / "to/in.parquet", folder / "marked/in.parquet", gone


def intervals_are_found(source: Path, kept: Path, gone: set[str]) -> None:
    """DuckDB looks intervals up in the Bloom filters of its files in a way of its own."""
    duckdb = needs("duckdb")
    query = "SELECT id FROM read_parquet('{}') WHERE months = INTERVAL '60 days' ORDER BY id"
    expected = [row[0] for row in duckdb.sql(query.format(source)).fetchall()]
    assert len(expected) > 5
    assert [row[0] for row in duckdb.sql(query.format(kept)).fetchall()] == [
        name for name in expected if name not in gone
    ]


def frames_are_equal(source: Path, kept: Path, gone: set[str]) -> None:
    """Only Polars knows that 16 bytes are an integer."""
    polars = needs("polars")
    frame = polars.read_parquet(source)
    assert frame.schema["int128"] == polars.Int128
    assert polars.read_parquet(kept).equals(frame.filter(~polars.col("id").is_in(list(gone))))


#: What only the writer itself can say of its file.
OWN = {by_duckdb: intervals_are_found, by_polars: frames_are_equal}


def test_rows_that_stay_keep_every_value(applied: tuple[Any, Path, Path, Path, set[str]]) -> None:
    writer, source, kept, marked, gone = applied
    rows = READERS[writer](source)
    assert READERS[writer](kept) == [row for row in rows if str(row["id"]) not in gone]
    if writer in OWN:
        OWN[writer](source, kept, gone)
    more = READERS[writer](marked)
    assert [{name: row[name] for name in rows[0]} for row in more] == rows
    names = ["cluster_id", "representative", "kept_id"]
    assert list(more[0]) == [*rows[0], *names]
    assert {str(row["id"]) for row in more if str(row["representative"]).lower() == "false"} == gone


def test_schema_and_metadata_stay(applied: tuple[Any, Path, Path, Path, set[str]]) -> None:
    _, source, kept, marked, _ = applied
    assert footer(kept) == footer(source)
    (nodes, pairs), (more_nodes, more_pairs) = footer(source), footer(marked)
    assert more_nodes[: len(nodes)] == nodes and len(more_nodes) == len(nodes) + 3
    described = {b"ARROW:schema", b"org.apache.spark.sql.parquet.row.metadata"}
    assert {key: value for key, value in more_pairs.items() if key not in described} == {
        key: value for key, value in pairs.items() if key not in described
    }


def test_arrow_and_spark_see_the_new_columns(applied: tuple[Any, Path, Path, Path, set[str]]) -> None:
    writer, source, _, marked, _ = applied
    more = pyarrow.parquet.read_schema(marked)
    added = [("cluster_id", pyarrow.string()), ("representative", pyarrow.bool_()), ("kept_id", pyarrow.string())]
    assert [(field.name, field.type) for field in more][-3:] == added
    # The Arrow schema of Polars has integers of 128 bits, which neither Arrow nor this program knows: it is left out.
    assert (b"ARROW:schema" in footer(marked)[1]) == (writer is by_pyarrow)
    if writer is not by_polars:
        schema = pyarrow.parquet.read_schema(source)
        assert list(more)[:-3] == list(schema)
        assert [field.metadata for field in more][:-3] == [field.metadata for field in schema]
    if writer is by_pyarrow_of_before:
        described = json.loads(footer(marked)[1][b"org.apache.spark.sql.parquet.row.metadata"])
        assert [field["name"] for field in described["fields"]] == [
            "id",
            "text",
            "cluster_id",
            "representative",
            "kept_id",
        ]
        assert [field["type"] for field in described["fields"]][2:] == ["string", "boolean", "string"]
