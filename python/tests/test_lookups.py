"""Rows of find, neighbors, show and sql."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Callable

import pyarrow
import pyarrow.parquet
import pytest

import resemblance

from .conftest import DOCUMENTS


def test_rows_are_a_sequence_of_typed_rows_and_a_table() -> None:
    found = resemblance.find(DOCUMENTS, threshold=0.5)
    assert isinstance(found[0], resemblance.Pair) and found[0].jaccard == 1.0
    assert len(found) == len(list(found)) > len(found[2:]) > 0
    assert found[2:].to_arrow().to_pylist() == found.to_arrow().to_pylist()[2:]
    table = found.to_arrow()
    assert table.schema.field("id_a").type == pyarrow.string()
    assert [row["id_b"] for row in table.to_pylist()] == [pair.id_b for pair in found]
    assert found == found[:] != found[1:]


def test_no_rows_are_a_table_with_its_columns() -> None:
    table = resemblance.find(DOCUMENTS / "garden.txt", DOCUMENTS / "tram.txt").to_arrow()
    assert table.num_rows == 0 and table.schema.field("jaccard").type == pyarrow.float64()


def test_find_takes_the_options_of_the_command(tmp_path: Path) -> None:
    for name in ("-a.txt", "b.txt"):
        (tmp_path / name).write_bytes("Ein schöner Tag für die Ähnlichkeit".encode("latin-1"))
    # No option, although it begins with the sign of one.
    found = resemblance.find(tmp_path, size=2, unit="word", encoding="latin-1", threshold=1)
    assert [(pair.id_a, pair.id_b) for pair in found] == [("-a.txt", "b.txt")]
    with pytest.raises(TypeError, match="at least one"):
        resemblance.find()


def test_find_takes_shares_numbers_of_pairs_and_lines(tmp_path: Path) -> None:
    inner = "one two three four five six seven eight nine ten"
    outer = f"{inner} and then a long text that goes on and on until it is three times as long as the text inside it"
    texts = {"inner": inner, "outer": outer, "copy": outer, "other": "nothing of all this is in any of the other texts"}
    assert [{pair.id_a, pair.id_b} for pair in resemblance.find(texts)] == [{"copy", "outer"}]
    contained = resemblance.find(texts, contains=1)
    assert {frozenset((pair.id_a, pair.id_b)) for pair in contained} == {
        frozenset(pair) for pair in (("copy", "outer"), ("inner", "outer"), ("inner", "copy"))
    }
    assert len(resemblance.find(texts, contains=1, top=1)) == 1
    file = tmp_path / "lines.txt"
    file.write_text("\n".join(texts.values()))
    assert [(pair.id_a, pair.id_b) for pair in resemblance.find(file, lines=True)] == [("2", "3")]
    with pytest.raises(TypeError, match="text files"):
        resemblance.find(texts, lines=True)


def test_neighbors_of_a_text_need_not_be_in_the_output(quickstart: resemblance.Run) -> None:
    tram = DOCUMENTS / "tram.txt"
    by_text = resemblance.neighbors(quickstart, text=tram.read_text(encoding="utf-8"), top=1)
    assert isinstance(by_text[0], resemblance.Neighbor)
    assert (by_text[0].id, by_text[0].jaccard) == ("tram.txt", 1.0)
    assert by_text == resemblance.neighbors(quickstart.output, file=tram, top=1)
    with pytest.raises(TypeError, match="exactly one"):
        resemblance.neighbors(quickstart, id="a", text="b")
    with pytest.raises(TypeError, match="exactly one"):
        resemblance.neighbors(quickstart)


def test_ids_that_are_numbers_stay_numbers(tmp_path: Path) -> None:
    import pyarrow.parquet

    texts = ["one two three four five six seven eight"] * 2 + ["something else that is not like it at all"]
    pyarrow.parquet.write_table(pyarrow.table({"key": [-10, 9, 3], "text": texts}), tmp_path / "in.parquet")
    run = resemblance.run(
        {
            "source": {"format": "parquet", "url": tmp_path / "in.parquet", "id": "key", "text": "text"},
            "output": {"url": tmp_path / "out"},
        }
    )
    assert run.pairs.to_arrow().select(["id_a", "id_b"]).to_pylist() == [{"id_a": -10, "id_b": 9}]
    found = resemblance.neighbors(run, id=-10)
    assert [neighbor.id for neighbor in found] == [9]
    assert found.to_arrow().schema.field("id").type == pyarrow.int64()


def test_sql_gives_dicts_whose_missing_values_are_none(quickstart: resemblance.Run) -> None:
    query = """
        SELECT id, nullif(reason, 'too_short') AS reason, position FROM rejects ORDER BY id DESC
    """
    found = resemblance.sql(quickstart, query)
    # The first row has no reason, and its column stands where the query has it all the same.
    assert [list(row) for row in found] == [["id", "reason", "position"]] * 3
    assert [row["reason"] for row in found] == [None, "empty_text", "invalid_utf8"]
    assert found.to_arrow().column_names == ["id", "reason", "position"]
    assert resemblance.sql(quickstart, "-- a comment\nSELECT 1 AS one WHERE false").to_arrow().num_rows == 0


def test_sql_writes_only_on_request(quickstart: resemblance.Run, tmp_path: Path) -> None:
    query = f"COPY (SELECT * FROM pairs) TO '{tmp_path / 'pairs.csv'}' STORED AS CSV"
    with pytest.raises(resemblance.JobError):
        resemblance.sql(quickstart, query)
    resemblance.sql(quickstart, query, allow_writes=True, memory="256MiB")
    assert (tmp_path / "pairs.csv").exists()


def test_show_gives_the_passages_that_both_texts_have(quickstart: resemblance.Run) -> None:
    shown = resemblance.show(quickstart, top=5)
    assert len(shown) == 5 and isinstance(shown[0], resemblance.ShownPair)
    for pair in shown:
        assert pair.text_a == (DOCUMENTS / str(pair.id_a)).read_bytes().decode("utf-8")
        assert pair.text_b == (DOCUMENTS / str(pair.id_b)).read_bytes().decode("utf-8")
        for passage in pair.passages:
            in_a = pair.text_a[passage.start_a : passage.end_a]
            in_b = pair.text_b[passage.start_b : passage.end_b]
            assert words(in_a) == words(in_b) and len(words(in_a)) >= 3
    of_one = resemblance.show(quickstart, id="garden.txt", pairs="least-similar", top=1)
    assert [(pair.id_a, pair.id_b, pair.cluster_id) for pair in of_one] == [("garden-edited.txt", "garden.txt", None)]
    assert all(pair.passages_complete and not (pair.reference_a or pair.reference_b) for pair in shown)
    cluster = resemblance.show(quickstart, cluster="bread.txt")
    assert {pair.cluster_id for pair in cluster} == {"bread-copy.txt"} and len(cluster) == 2
    assert cluster.to_arrow().schema.field("passages").type.value_type.num_fields == 4
    with pytest.raises(resemblance.JobError, match="is in no pair"):
        resemblance.show(quickstart, cluster="lake.txt")


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def test_the_places_of_a_passage_are_rows(tmp_path: Path) -> None:
    license = "permission is hereby granted to any person to use this"
    texts = [f"{word} {license} {word} again" for word in ("one", "two", "three")]
    pyarrow.parquet.write_table(pyarrow.table({"id": [1, 2, 3], "text": texts}), tmp_path / "in.parquet")
    source = {"format": "parquet", "url": str(tmp_path / "in.parquet"), "id": "id", "text": "text"}
    passages = {"unit": "word", "length": 6}
    run = resemblance.run({"source": source, "passages": passages, "output": {"url": str(tmp_path / "out")}})
    (passage,) = run.passages.to_arrow().to_pylist()
    places = resemblance.show_passage(run, passage["passage_id"][:8], top=2)
    assert [(place["id"], place["kept"]) for place in places] == [(1, True), (2, False)]
    first = places[0]
    assert texts[0][first["char_start"] : first["char_end"]] == license
    with pytest.raises(resemblance.JobError, match="no passage"):
        resemblance.show_passage(run, "zzz")


def test_a_newer_command_may_say_more(stand_in: Callable[[str], Path]) -> None:
    row: dict[str, Any] = {"id_a": "a\u2028", "id_b": "b", "jaccard": 1.0, "containment_a": 1.0, "containment_b": 1.0}
    line = json.dumps({**row, "colour": "green"}, ensure_ascii=False)
    stand_in(f"import sys; sys.stdout.buffer.write({line!r}.encode() + b'\\n')")
    assert resemblance.find("a").to_arrow().to_pylist() == [row]


def test_a_report_is_data_and_a_page(quickstart: resemblance.Run, tmp_path: Path) -> None:
    report = resemblance.report(quickstart, tmp_path / "report.html", before=quickstart)
    assert report["numbers"]["pairs"] == quickstart.counts["pairs"]
    assert all(row["new"] == row["gone"] == 0 for row in report["before"]["compared"])
    assert report["sentence"] in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_an_output_is_evaluated_and_judged(quickstart: resemblance.Run, tmp_path: Path) -> None:
    measured = resemblance.evaluate(quickstart, sample=100)
    assert measured["wrong_pairs"] == 0 and 0 < measured["recall"]["pairs"]["value"] <= 1
    drawn = resemblance.evaluate(quickstart, audit=50, to=tmp_path / "audit")
    assert drawn["pairs"] == sum(stratum["pairs"] for stratum in drawn["strata"]) >= quickstart.counts["pairs"]
    pack = pyarrow.parquet.read_table(tmp_path / "audit" / "audit.parquet")
    assert pack.num_rows == drawn["drawn"] and pack["label"].null_count == pack.num_rows
    labels = pack.select(["key"]).append_column("label", pyarrow.array([True] * pack.num_rows))
    pyarrow.parquet.write_table(labels, tmp_path / "labels.parquet")
    judged = resemblance.evaluate(quickstart, labels=tmp_path / "labels.parquet")
    assert judged["all"] == {"value": 1.0, "low": 1.0, "high": 1.0} and judged["missing"] == 0
    page = tmp_path / "report.html"
    report = resemblance.report(quickstart, page, labels=tmp_path / "labels.parquet")
    assert report["judged"] == judged and "What was judged" in page.read_text(encoding="utf-8")
    with pytest.raises(TypeError):
        resemblance.evaluate(quickstart, audit=50, labels=tmp_path / "labels.parquet")
