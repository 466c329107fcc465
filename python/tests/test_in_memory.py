"""Lists of texts and data frames. What stays and what is a pair is counted by plain Python."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.dataset
import pyarrow.parquet
import pytest

import resemblance

TEXTS = [
    "the quick brown fox jumps over the lazy dog near the river bank",
    "nothing of the kind was ever seen in this old and quiet house",
    "the quick brown fox jumps over the lazy dog near the river bank!",
    None,
    "the quick brown fox jumps over the lazy dog near the river bank",
]


def shingles(text: str, size: int = 5) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[at : at + size]) for at in range(len(words) - size + 1)}


def similar(threshold: float) -> set[tuple[int, int]]:
    sets = {at: shingles(text) for at, text in enumerate(TEXTS) if text is not None}
    return {
        (a, b) for a in sets for b in sets if a < b and len(sets[a] & sets[b]) / len(sets[a] | sets[b]) >= threshold
    }


def test_find_compares_texts() -> None:
    found = resemblance.find(TEXTS, threshold=0.7, progress=False)
    assert {(pair.id_a, pair.id_b) for pair in found} == similar(0.7) == {(0, 2), (0, 4), (2, 4)}
    # NaN is a missing text too.
    assert resemblance.find([*TEXTS, float("nan")], threshold=0.7) == found
    assert found.head(1)[0].jaccard == 1.0
    assert "<td>1.000000</td>" in found._repr_html_()


def test_dedup_keeps_one_of_similar_texts() -> None:
    kept = resemblance.dedup(TEXTS, threshold=0.7, progress=False)
    # The first of equal texts stays, and what cannot be compared.
    assert kept == [TEXTS[0], TEXTS[1], None]
    assert resemblance.find(kept, threshold=0.7, progress=False) == resemblance.find(["a", "b"], progress=False)


def test_keep_and_rejects_say_what_stays() -> None:
    kept = resemblance.dedup(TEXTS, threshold=0.7, keep="first", rejects="drop", progress=False)
    assert kept == [TEXTS[0], TEXTS[1]]
    frame = pyarrow.table({"body": TEXTS, "id": [5, 4, 3, 2, 1], "meta": [{"day": day} for day in (2, 0, 1, 0, 3)]})
    frame = frame.append_column("day, hour", [[2, 0, 1, 0, 3]])
    rules = [("id", 1), ("meta.day", 3), ('"day, hour"', 3), (["body in (x, y)", "meta.day desc"], 1), ("last", 1)]
    for keep, stays in rules:
        rows = resemblance.dedup(frame, text="body", threshold=0.7, keep=keep, progress=False)
        assert sorted(rows["id"].to_pylist()) == sorted([4, 2, stays]), keep
    with pytest.raises(TypeError, match="let rejects be keep or drop"):
        resemblance.dedup(TEXTS, rejects="separate")
    with pytest.raises(resemblance.JobError, match="no column `stars`"):
        resemblance.dedup(frame, text="body", keep="stars desc", progress=False)


def test_a_dataset_comes_back_without_near_duplicates() -> None:
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_dict({"stars": [9, 1, 2, 3, 4, 5], "body": ["left out", *TEXTS]}).select(range(1, 6))
    kept = resemblance.dedup(data, text="body", threshold=0.7, keep="stars", progress=False)
    assert isinstance(kept, datasets.Dataset)
    assert kept.to_dict() == {"stars": [1, 2, 4], "body": [TEXTS[0], TEXTS[1], None]}
    assert len(resemblance.find(data, text="body", threshold=0.7, progress=False)) == 3
    stream = data.to_iterable_dataset()
    for several in (datasets.DatasetDict(train=data), stream):
        with pytest.raises(TypeError, match=r"such as data\['train'\], or iter\(data\)"):
            resemblance.dedup(several, text="body")
    loaded = resemblance.dedup(iter(stream), text="body", threshold=0.7, keep="stars")
    assert loaded == [{"stars": stars, "body": text} for stars, text in ((1, TEXTS[0]), (2, TEXTS[1]), (4, None))]


def test_a_dataset_of_arrow_becomes_a_table(tmp_path: Path) -> None:
    table = pyarrow.table({"stars": [1, 2, 3, 4, 5], "body": TEXTS})
    for name, part in (("a", table[:2]), ("b", table[2:])):
        pyarrow.parquet.write_table(part, tmp_path / f"{name}.parquet")
    data = pyarrow.dataset.dataset(tmp_path)
    kept = resemblance.dedup(data, text="body", threshold=0.7, keep="stars", progress=False)
    assert kept.to_pydict() == {"stars": [1, 2, 4], "body": [TEXTS[0], TEXTS[1], None]}
    assert len(resemblance.find(data, text="body", threshold=0.7, progress=False)) == 3


@pytest.mark.parametrize("library", ["pyarrow", "pandas", "polars"])
def test_data_frames_stay_what_they_are(library: str) -> None:
    columns = {"key": ["a", "b", "c", "d", "e"], "body": TEXTS, "stars": [1, 2, 3, 4, 5]}
    frame: Any = pyarrow.table(columns)
    if library != "pyarrow":
        frame = getattr(pytest.importorskip(library), "DataFrame")(columns)
    kept = resemblance.dedup(frame, text="body", threshold=0.7, progress=False)
    assert type(kept) is type(frame)
    assert list(kept.columns if library == "pandas" else kept.schema.names if library == "pyarrow" else kept.columns) == list(columns)
    stars = kept["stars"].to_pylist() if library == "pyarrow" else list(kept["stars"])
    assert stars == [1, 2, 4]
    found = resemblance.find(frame, text="body", id="key", threshold=0.7, progress=False)
    assert {(pair.id_a, pair.id_b) for pair in found} == {("a", "c"), ("a", "e"), ("c", "e")}
    with pytest.raises(ValueError, match="several columns hold text, key, body"):
        resemblance.find(frame)
    with pytest.raises(ValueError, match="there is no column 'bodies'; the columns are key, body, stars"):
        resemblance.find(frame, text="bodies")


@pytest.mark.parametrize("library", ["pyarrow", "pandas", "polars"])
def test_a_series_is_a_list_of_texts(library: str) -> None:
    series: Any = pyarrow.chunked_array([TEXTS[:2], TEXTS[2:]])
    if library != "pyarrow":
        series = getattr(pytest.importorskip(library), "Series")(TEXTS)
    found = resemblance.find(series, threshold=0.7, progress=False)
    assert {(pair.id_a, pair.id_b) for pair in found} == similar(0.7)
    kept = resemblance.dedup(series, threshold=0.7, progress=False)
    assert type(kept) is type(series)
    assert len(kept) == 3


def test_a_dict_has_texts_by_ids_or_columns() -> None:
    by_id = dict(zip("abcde", TEXTS))
    found = resemblance.find(by_id, threshold=0.7)
    named = {("abcde"[a], "abcde"[b]) for a, b in similar(0.7)}
    assert {(pair.id_a, pair.id_b) for pair in found} == named
    assert resemblance.dedup(by_id, threshold=0.7, keep="last") == {"b": TEXTS[1], "d": None, "e": TEXTS[4]}
    assert resemblance.dedup({}) == {}

    columns = {"key": ["a", "b", "c", "d", "e"], "body": tuple(TEXTS), "stars": [1, 2, 3, 4, 5], 7: range(5)}
    found = resemblance.find(columns, text="body", id="key", threshold=0.7)
    assert {(pair.id_a, pair.id_b) for pair in found} == named
    numbered = resemblance.find(columns, text="body", threshold=0.7)
    assert {(pair.id_a, pair.id_b) for pair in numbered} == similar(0.7)
    kept = resemblance.dedup(columns, text="body", threshold=0.7, keep=["stars desc"])
    assert kept == {"key": ["b", "d", "e"], "body": [TEXTS[1], None, TEXTS[4]], "stars": [2, 4, 5], 7: [1, 3, 4]}

    with pytest.raises(TypeError, match="this has both"):
        resemblance.find({"a": "a text", "b": ["a list"]})
    with pytest.raises(TypeError, match="column 'n' is no list of values of one type"):
        resemblance.find({"text": ["a", "b"], "n": [1, "one"]})
    with pytest.raises(TypeError, match="ids of the rows are of several types"):
        resemblance.find({"a": "a text", 1: "another"})


def test_generators_of_texts_and_of_rows_are_read_to_their_end() -> None:
    def rows() -> Iterator[dict[str, Any]]:
        for number, text in enumerate(TEXTS):
            # Only some rows have stars.
            yield {"key": f"k{number}", "body": text, **({"stars": number} if number > 1 else {})}

    found = resemblance.find((text for text in TEXTS), threshold=0.7)
    assert {(pair.id_a, pair.id_b) for pair in found} == similar(0.7)
    assert resemblance.dedup(iter(TEXTS), threshold=0.7, keep="last") == [TEXTS[1], None, TEXTS[4]]
    found = resemblance.find(rows(), text="body", id="key", threshold=0.7)
    assert {(pair.id_a, pair.id_b) for pair in found} == {("k0", "k2"), ("k0", "k4"), ("k2", "k4")}
    for data in (rows(), list(rows())):
        kept = resemblance.dedup(data, text="body", threshold=0.7, keep="stars desc")
        assert kept == [row for row in rows() if row["key"] in ("k1", "k3", "k4")]
    batches = pyarrow.Table.from_pylist(list(rows())).to_reader(max_chunksize=2)
    assert resemblance.dedup(batches, text="body", threshold=0.7)["key"].to_pylist() == ["k0", "k1", "k3"]
    assert resemblance.dedup(iter([]), text="body") == [] == list(resemblance.find([], text="body", id="key"))
    with pytest.raises(TypeError, match="element 1 is of the type str"):
        resemblance.find([{"body": "a"}, "b"])
    with pytest.raises(TypeError, match="not a value of the type int"):
        resemblance.find(5)


def test_labels_of_an_index_are_the_ids() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"body": ["left out", *TEXTS]}, index=["x", "a", "b", "c", "d", "e"]).iloc[1:]
    for data in (frame, frame["body"]):
        found = resemblance.find(data, threshold=0.7)
        assert {(pair.id_a, pair.id_b) for pair in found} == {("a", "c"), ("a", "e"), ("c", "e")}
        joined = found.to_pandas().merge(frame, left_on="id_a", right_index=True)
        assert set(joined["body"]) == {TEXTS[0], TEXTS[2]}
    filtered = pandas.DataFrame({"body": ["left out", *TEXTS]})[1:]
    found = resemblance.find(filtered, threshold=0.7)
    assert {(pair.id_a, pair.id_b) for pair in found} == {(1, 3), (1, 5), (3, 5)}
    days = frame.set_index(pandas.date_range("2026-01-01", periods=5))
    first = resemblance.find(days, threshold=1)[:1]
    assert days.loc[first[0].id_a, "body"] == TEXTS[0]
    assert pyarrow.types.is_timestamp(first.to_arrow().schema.field("id_a").type)
    assert len(resemblance.find(frame.iloc[:0])) == 0
    # A column that is named as id comes before the index.
    keyed = resemblance.find(frame.assign(key=range(5)), text="body", id="key", threshold=0.7)
    assert {(pair.id_a, pair.id_b) for pair in keyed} == similar(0.7)
    twice = pandas.concat([frame, frame])
    with pytest.raises(ValueError, match=r"same label in several rows: pass frame.reset_index\(drop=True\)"):
        resemblance.find(twice)
    assert len(resemblance.find(twice.reset_index(drop=True), threshold=1)) == 16
    assert list(resemblance.dedup(twice, threshold=0.7, keep="first").index) == ["a", "b", "d", "d"]


def test_nothing_is_printed_unless_asked(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    source = {"format": "text", "url": "jobs/quickstart/garden*.txt"}
    job = {"source": source, "score": {"threshold": 0.5}, "output": {"url": tmp_path / "out"}}
    resemblance.find(TEXTS)
    resemblance.dedup(TEXTS)
    resemblance.find("jobs/quickstart/garden.txt", "jobs/quickstart/tram.txt")
    run = resemblance.run(job)
    resemblance.plan(job)
    resemblance.neighbors(run, id="garden.txt", top=1)
    resemblance.apply(run, tmp_path / "clean")
    assert capfd.readouterr() == ("", "")
    resemblance.dedup(TEXTS, progress=True)
    assert "sketches: done" in capfd.readouterr().err


def test_several_columns_hold_the_text(tmp_path: Path) -> None:
    halves = [text and text[:30] for text in TEXTS], [text and text[30:] for text in TEXTS]
    frame = pyarrow.table({"a,b": TEXTS, "a": halves[0], "b": halves[1]})
    pyarrow.parquet.write_table(frame, tmp_path / "in.parquet")
    for text in (["a", "b"], "a, b", "a,b"):
        kept = resemblance.dedup(frame, text=text, threshold=0.5, progress=False)
        assert kept["a,b"].to_pylist() == [TEXTS[0], TEXTS[1], None], text
        assert len(resemblance.find(frame, text=text, threshold=0.5, progress=False)) == 3
        assert len(resemblance.find(tmp_path / "in.parquet", text=text, threshold=0.5, progress=False)) == 3
    with pytest.raises(ValueError, match="there is no column 'c'"):
        resemblance.find(frame, text=["a", "c"])
    for data in (frame, tmp_path / "in.parquet"):
        with pytest.raises(ValueError, match="text names no column"):
            resemblance.find(data, text=[])
    with pytest.raises(ValueError, match="separates columns by commas"):
        resemblance.find(tmp_path / "in.parquet", text=["a,b", "a"])


def test_errors_name_the_data_and_not_their_temporary_file() -> None:
    with pytest.raises(resemblance.ResemblanceError) as raised:
        resemblance.dedup({"stars": [1, 2], "body": ["", ""]}, text="body")
    assert "the data" in str(raised.value) and "data.parquet" not in str(raised.value)


def test_a_lazy_frame_has_to_be_collected() -> None:
    polars = pytest.importorskip("polars")
    with pytest.raises(TypeError, match="what its collect"):
        resemblance.dedup(polars.LazyFrame({"body": TEXTS}), text="body")


def test_wrong_arguments_say_what_is_expected() -> None:
    with pytest.raises(TypeError, match="element 1 is of the type int"):
        resemblance.find(["a", 1])
    with pytest.raises(TypeError, match="leave out text and id"):
        resemblance.find(["a"], id="key")
    with pytest.raises(TypeError, match="leave out to and"):
        resemblance.dedup(["a"], "clean/")
    with pytest.raises(TypeError, match="the folder to write to"):
        resemblance.dedup("reviews.csv")
    with pytest.raises(TypeError, match="write score__threshold, with two underscores"):
        resemblance.check("jobs/quickstart.toml", score_threshold=0.9)


def test_files_are_written_without_their_duplicates(tmp_path: Any) -> None:
    path = tmp_path / "in.csv"
    rows = [f'{at},"{text}"' for at, text in enumerate(TEXTS) if text is not None]
    path.write_text("id,body\n" + "\n".join(rows) + "\n")
    planned = resemblance.dedup(path, text="body", threshold=0.7, dry_run=True, progress=False)
    assert (planned.read, planned.kept, planned.removed, planned.files) == (4, 2, 2, None)
    done = resemblance.dedup(path, tmp_path / "clean", text="body", threshold=0.7, progress=False)
    assert (done.kept, done.removed) == (2, 2)
    assert (tmp_path / "clean/in.csv").read_text().count("fox") == 1


def test_the_version_is_that_of_the_package() -> None:
    assert resemblance.__version__.count(".") == 2


def test_rows_of_files_are_chosen_by_a_condition_and_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "reviews.csv"
    path.write_text("lang,body\n" + "".join(f"{lang},{TEXTS[0]}\n" for lang in ("en", "en", "de", "de", "de")))
    found = [len(resemblance.find(path, text="body", where=f"lang = '{lang}'", progress=False)) for lang in ("en", "de")]
    assert found == [1, 3]
    assert len(resemblance.find(path, text="body", limit=1, progress=False)) == 0
    assert len(resemblance.find(path, text="body", limit="100%", progress=False)) == 10
    planned = resemblance.dedup(path, text="body", where="lang = 'de'", dry_run=True, progress=False)
    assert (planned.read, planned.kept, planned.removed) == (5, 3, 2)
    for find_or_dedup in (resemblance.find, resemblance.dedup):
        with pytest.raises(TypeError, match="beforehand"):
            find_or_dedup(TEXTS, where="true")
        with pytest.raises(TypeError, match="beforehand"):
            find_or_dedup(TEXTS, limit="50%")
