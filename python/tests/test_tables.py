"""The tables of outputs, and what they and rows become in other libraries."""

from __future__ import annotations

import importlib
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.dataset
import pyarrow.parquet
import pytest

import resemblance

from .conftest import needs


def rows_of(table: pyarrow.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: (row["id_a"], row["id_b"]))


def test_a_table_is_a_dataset_of_the_files_that_the_manifest_names(quickstart: resemblance.Run, tmp_path: Path) -> None:
    copy = tmp_path / "out"
    shutil.copytree(quickstart.output, copy)
    # What another run left is no part of the table.
    pyarrow.parquet.write_table(quickstart.pairs.to_arrow(), copy / "pairs" / "left-over.parquet")
    output = resemblance.open(copy)
    for name in ("pairs", "clusters", "documents", "rejects"):
        table = output.tables[name]
        dataset = table.dataset()
        assert isinstance(dataset, pyarrow.dataset.FileSystemDataset)
        named = [file["path"] for file in json.loads((copy / "manifest.json").read_text())["tables"][name]["files"]]
        assert [str(Path(file).relative_to(copy)) for file in dataset.files] == named == table.files
        assert dataset.count_rows() == table.rows == len(table) == table.to_arrow().num_rows
    assert rows_of(output.pairs.to_arrow()) == rows_of(quickstart.pairs.to_arrow())


def test_an_output_shows_its_pairs(quickstart: resemblance.Run) -> None:
    assert quickstart.head(2).equals(quickstart.pairs.head(2)) and quickstart.head(2).num_rows == 2
    assert "<th>jaccard</th>" in quickstart._repr_html_()


def test_a_table_without_rows_has_its_columns(quickstart: resemblance.Run, tmp_path: Path) -> None:
    run = resemblance.run(
        "jobs/quickstart.toml", source__url="jobs/quickstart/garden.txt", output__url=tmp_path / "out"
    )
    assert len(run.pairs) == 0 and run.pairs
    assert run.pairs.to_arrow().schema.equals(quickstart.pairs.to_arrow().schema)


def test_passages_are_tables_if_the_job_asks_for_them(quickstart: resemblance.Run, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("a", "b"):
        (tmp_path / "in" / f"{name}.txt").write_text(f"The same line in both of them.\nAnd one of {name}.\n")
    run = resemblance.run(
        "jobs/quickstart.toml",
        source__url=str(tmp_path / "in"),
        output__url=tmp_path / "out",
        passages__unit="line",
    )
    spans, passages = run.spans.to_arrow().to_pylist(), run.passages.to_arrow().to_pylist()
    assert sorted((row["id"], row["char_start"], row["kept"]) for row in spans) == [
        ("a.txt", 0, True),
        ("b.txt", 0, False),
    ]
    assert [(row["sample"], row["documents"]) for row in passages] == [("The same line in both of them.\n", 2)]
    with pytest.raises(resemblance.InputError, match="passages"):
        quickstart.spans  # noqa: B018


def test_open_gives_what_run_gave(quickstart: resemblance.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = resemblance.open(quickstart.output)
    assert opened.manifest == quickstart.manifest and opened.counts == quickstart.counts
    assert resemblance.open(opened) is opened
    monkeypatch.chdir(Path(quickstart.output).parent)
    relative = resemblance.open(Path("out"))
    assert relative.output == opened.output
    assert resemblance.open(Path(quickstart.output).as_uri()).pairs.to_arrow().num_rows == 7


def test_pandas(quickstart: resemblance.Run) -> None:
    pandas = needs("pandas")
    frame = quickstart.pairs.to_pandas()
    assert isinstance(frame, pandas.DataFrame) and len(frame) == 7
    assert frame["jaccard"].dtype == "float64"
    assert set(resemblance.sql(quickstart, "SELECT id FROM rejects").to_pandas()["id"]) == {
        "broken.txt",
        "empty.txt",
        "too-short.txt",
    }


def test_polars(quickstart: resemblance.Run) -> None:
    polars = needs("polars")
    frame = quickstart.pairs.to_polars()
    assert isinstance(frame, polars.DataFrame) and frame.height == 7
    assert frame.schema["jaccard"] == polars.Float64 and frame.schema["id_a"] == polars.String
    neighbors = resemblance.neighbors(quickstart, id="garden.txt").to_polars()
    assert neighbors.sort("jaccard")["id"].to_list() == ["garden-rewritten.txt", "garden-edited.txt"]


def test_duckdb(quickstart: resemblance.Run) -> None:
    duckdb = needs("duckdb")
    assert quickstart.pairs.to_duckdb().filter("jaccard = 1").count("*").fetchall() == [(3,)]
    con = duckdb.connect()
    quickstart.pairs.to_duckdb(con).create_view("pairs")
    quickstart.clusters.to_duckdb(con).create_view("clusters")
    query = "SELECT count(*) FROM pairs JOIN clusters ON id = id_a WHERE representative"
    expected = resemblance.sql(quickstart, query.replace("count(*)", "count(*) AS n"))[0]["n"]
    assert con.sql(query).fetchall() == [(expected,)]
    assert resemblance.find("jobs/quickstart").to_duckdb(con).aggregate("max(jaccard)").fetchall() == [(1.0,)]


@pytest.mark.parametrize("name", ["pandas", "polars", "duckdb"])
def test_a_library_that_is_missing_is_named(
    quickstart: resemblance.Run, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    real = importlib.import_module

    def absent(module: str, package: Any = None) -> Any:
        if module == name:
            raise ImportError(f"No module named {module!r}", name=module)
        return real(module, package)

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(ImportError, match=rf"to_{name} needs {name}.*pip install {name}"):
        getattr(quickstart.pairs, f"to_{name}")()


def test_all_that_is_exported_is_there() -> None:
    assert all(hasattr(resemblance, name) for name in resemblance.__all__)
    assert list(resemblance.__all__) == sorted(resemblance.__all__)
