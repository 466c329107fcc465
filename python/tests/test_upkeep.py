"""Apply, verify, clean and generate."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet
import pytest

import resemblance


def test_apply_writes_what_stays(quickstart: resemblance.Run, tmp_path: Path) -> None:
    clusters = quickstart.clusters.to_arrow().to_pylist()
    gone = {row["id"] for row in clusters if not row["representative"]}
    counted = resemblance.apply(quickstart, dry_run=True)
    assert counted.files is None and counted.removed == len(gone) > 0
    assert counted.kept + counted.removed + counted.rejected == counted.read
    applied = resemblance.apply(quickstart, tmp_path / "to", rejects="separate", progress=False)
    assert (applied.read, applied.kept, applied.removed) == (counted.read, counted.kept, counted.removed)
    kept = {file.name for file in (tmp_path / "to").iterdir() if file.is_file()}
    assert len(kept) == applied.kept and not kept & gone
    removed = pyarrow.parquet.read_table(tmp_path / "to" / "_resemblance" / "removed")
    assert set(removed["id"].to_pylist()) == gone
    assert resemblance.apply(quickstart, tmp_path / "to", rejects="separate").already_finished
    with pytest.raises(resemblance.JobError, match="--to"):
        resemblance.apply(quickstart, tmp_path / "to", rejects="drop")


def test_apply_cuts_passages(tmp_path: Path) -> None:
    common = "This line is at the end of every page."
    table = pyarrow.table({"id": ["a", "b", "c"], "text": [f"Page {n} has words {n * 7} of its own\n{common}" for n in (1, 2, 3)]})
    pyarrow.parquet.write_table(table, tmp_path / "pages.parquet")
    run = resemblance.run(
        {
            "source": {"format": "parquet", "url": str(tmp_path / "pages.parquet"), "id": "id", "text": "text"},
            "passages": {"unit": "line"},
            "score": {"threshold": 0.95},
            "output": {"url": str(tmp_path / "out")},
        },
        progress=False,
    )
    counted = resemblance.apply(run, passages="cut", dry_run=True)
    assert counted.passages == resemblance.RemovedSpans(2, 2, 18, 2 * len(common), 0)
    resemblance.apply(run, tmp_path / "to", passages="cut", progress=False)
    texts = pyarrow.parquet.read_table(tmp_path / "to" / "pages.parquet")["text"].to_pylist()
    assert sum(common in text for text in texts) == 1 and all(text.startswith("Page") for text in texts)
    marked = resemblance.apply(run, tmp_path / "marked", passages="mark", progress=False)
    assert marked.passages == counted.passages
    with pytest.raises(resemblance.JobError, match="min-words"):
        resemblance.apply(run, tmp_path / "other", passages="cut", min_words=7)


def test_apply_drops_documents_that_the_cut_leaves_too_short(tmp_path: Path) -> None:
    common = "This line is at the end of every page."
    own = {
        # The document with the most shingles keeps the line.
        "long": " ".join(f"long{n}" for n in range(25)),
        "plain": "Ten words of its own are more than it needs",
        "plain copy": "Ten words of its own are more than it needs",
        "short": "Only three words",
    }
    texts = {id: f"{text}\n{common}" for id, text in own.items()}
    # Nothing is cut out of it, so it stays.
    texts["whole"] = "These four words stay"
    table = pyarrow.table({"id": list(texts), "text": list(texts.values())})
    pyarrow.parquet.write_table(table, tmp_path / "pages.parquet")
    run = resemblance.run(
        {
            "source": {"format": "parquet", "url": str(tmp_path / "pages.parquet"), "id": "id", "text": "text"},
            "shingle": {"size": 2},
            "passages": {"unit": "line"},
            "score": {"threshold": 0.95},
            "output": {"url": str(tmp_path / "out")},
        },
        progress=False,
    )
    gone = {row["id"] for row in run.clusters.to_arrow().to_pylist() if not row["representative"]}
    (cut,) = {"plain", "plain copy"} - gone
    # Three words are left of the short one.
    counted = resemblance.apply(run, passages="drop", min_words=3, dry_run=True)
    assert counted.passages == resemblance.RemovedSpans(2, 2, 18, 2 * len(common), 0)
    applied = resemblance.apply(run, tmp_path / "to", passages="drop", min_words=4, progress=False)
    assert (applied.read, applied.kept, applied.removed, applied.rejected) == (5, 3, 2, 0)
    assert applied.passages == resemblance.RemovedSpans(1, 1, 9, len(common), 1)
    kept = pyarrow.parquet.read_table(tmp_path / "to" / "pages.parquet").to_pydict()
    assert dict(zip(kept["id"], kept["text"])) == {
        "long": texts["long"],
        cut: f"{own[cut]}\n",
        "whole": texts["whole"],
    }
    removed = pyarrow.parquet.read_table(tmp_path / "to" / "_resemblance" / "removed").to_pylist()
    reasons = {row["id"]: (row["reason"], row["kept_id"]) for row in removed}
    assert reasons == {"short": ("too_short", None), gone.pop(): ("duplicate", cut)}
    spans = pyarrow.parquet.read_table(tmp_path / "to" / "_resemblance" / "removed_spans").to_pylist()
    (span,) = spans
    assert (span["id"], span["kept_id"], span["words"]) == (cut, "long", 9)
    assert texts[cut].encode()[span["byte_start"] : span["byte_end"]].decode() == common
    again = resemblance.apply(run, tmp_path / "to", passages="drop", min_words=4, progress=False)
    assert again.already_finished and again.passages == applied.passages


def test_apply_keeps_copies_that_are_proven(quickstart: resemblance.Run, tmp_path: Path) -> None:
    require = "recall>=0.5,removed<=0.9"
    applied = resemblance.apply(quickstart, tmp_path / "to", keep_up_to=2, require=require, sample=500, seed=3)
    one = resemblance.apply(quickstart, dry_run=True)
    assert applied.kept >= one.kept and applied.repeats is not None
    assert applied.proof is not None and applied.proof["sample"]["seed"] == 3
    assert [figure["figure"] for figure in applied.proof["figures"] if figure["proven"]] == ["recall", "removed"]
    assert one.repeats is None and one.proof is None
    with pytest.raises(resemblance.AlarmError, match="not proven"):
        resemblance.apply(quickstart, tmp_path / "never", require="removed<=0")
    assert not (tmp_path / "never").exists()


def test_apply_adds_sizes(tmp_path: Path) -> None:
    texts = ["one two three four five"] * 3 + ["six seven eight nine ten"] * 2 + ["eleven twelve thirteen fourteen"]
    table = pyarrow.table({"id": [f"{n}" for n in range(6)], "text": texts, "shop": ["n", "s", "s", "n", None, "n"]})
    pyarrow.parquet.write_table(table, tmp_path / "in.parquet")
    source = {"format": "parquet", "url": str(tmp_path / "in.parquet"), "id": "id", "text": "text", "group": "shop"}
    run = resemblance.run({"source": source, "output": {"url": str(tmp_path / "out")}}, shingle__size=2, progress=False)
    counted = resemblance.apply(run, columns=["cluster_size"], dry_run=True)
    assert counted.sizes == resemblance.Sizes(documents=3, represented=6, largest=3)
    resemblance.apply(run, tmp_path / "to", columns=["cluster_size", "group_sizes"], progress=False)
    kept = pyarrow.parquet.read_table(tmp_path / "to" / "in.parquet").to_pydict()
    assert kept["cluster_size"] == [3, 2, 1]
    assert kept["group_sizes"] == ['{"n":1,"s":2}', '{"n":1}', '{"n":1}']
    assert resemblance.apply(run, dry_run=True).sizes is None


def test_verify_counts_the_files_or_names_the_damaged_one(quickstart: resemblance.Run, tmp_path: Path) -> None:
    files = [file for table in quickstart.manifest["tables"].values() for file in table["files"]]
    verified = resemblance.verify(quickstart)
    assert (verified.files, verified.bytes) == (len(files), sum(file["bytes"] for file in files))
    copy = tmp_path / "out"
    shutil.copytree(quickstart.output, copy)
    damaged = copy / files[0]["path"]
    whole = bytearray(damaged.read_bytes())
    whole[len(whole) // 2] ^= 1
    damaged.write_bytes(whole)
    with pytest.raises(resemblance.InputError) as raised:
        resemblance.verify(copy)
    assert files[0]["path"] in str(raised.value)


def test_clean_removes_what_the_program_wrote_and_counts_the_rest(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for limit in (1, 1_000_000):
        try:
            resemblance.run("jobs/quickstart.toml", output__url=out, output__max_pairs=limit)
        except resemblance.EngineError:
            pass
        else:
            break
        # The run met its limit, and its finished stages are there for the next one.
        (out / "pairs").mkdir(exist_ok=True)
        (out / "pairs" / "notes.txt").write_text("somebody else's")
        counted = resemblance.clean(out, dry_run=True)
        assert counted.dry_run and counted == resemblance.clean(out, dry_run=True)
    output = resemblance.open(out)
    resemblance.clean(out)
    assert resemblance.clean(output) == resemblance.Cleaned(files=0, bytes=0, foreign=1, dry_run=False)
    assert resemblance.verify(out).files == len(list(out.rglob("*.parquet")))
    assert (out / "pairs" / "notes.txt").is_file()


def test_generate_writes_the_same_documents_for_the_same_settings(tmp_path: Path) -> None:
    def texts(name: str, files: int = 1, seed: int = 42) -> list[str]:
        made = resemblance.generate(tmp_path / name, documents=50, words=20, files=files, seed=seed)
        assert made.truth is None and made.documents.rows == 50
        assert made.documents.bytes == sum(Path(file).stat().st_size for file in made.documents.files)
        tables = [pyarrow.parquet.read_table(file) for file in made.documents.files]
        return sorted(str(text) for table in tables for text in table["text"].to_pylist())

    assert texts("one") == texts("three", files=3) != texts("other", seed=1)
    with pytest.raises(resemblance.ResemblanceError, match="overwrite"):
        resemblance.generate(tmp_path / "one", documents=50)
    resemblance.generate(tmp_path / "one", documents=60, overwrite=True, copies=0, near=0.4, jaccards=[0.9, 0.8])


def test_merge_makes_one_output_of_two_days(tmp_path: Path) -> None:
    texts = {"a.txt": "one two three four five", "b.txt": "one two three four five", "c.txt": "six seven eight nine ten"}
    for day, names in enumerate([["a.txt", "c.txt"], ["b.txt"]]):
        (tmp_path / f"day{day}").mkdir()
        for name in names:
            (tmp_path / f"day{day}" / name).write_text(texts[name])
    job = {"source": {"format": "text"}, "shingle": {"size": 2}}
    days: list[resemblance.Run] = []
    for day in range(2):
        against = {"against": {"output": [run.output for run in days]}} if days else {}
        source = {"format": "text", "url": f"{tmp_path}/day{day}/"}
        output = {"url": f"{tmp_path}/out{day}"}
        days.append(resemblance.run({**job, "source": source, "output": output, **against}))
    assert [run.counts["pairs"] for run in days] == [0, 1]
    assert days[1].pairs.to_arrow().column("reference_b").to_pylist() == [True]
    merged = resemblance.merge(days, tmp_path / "merged")
    assert (merged.counts["documents"], merged.counts["pairs"]) == (3, 1)
    with pytest.raises(resemblance.JobError) as raised:
        resemblance.merge(days[1:], tmp_path / "half")
    assert "does not name before it" in str(raised.value)
