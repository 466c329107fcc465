"""The numbers, compared with those of a few lines of plain Python that read the same files."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest

import resemblance

from .conftest import DOCUMENTS

Sets = dict[str, set[Any]]


def normalised() -> dict[str, str]:
    """The texts that can be read, in small letters, with one space for every run of white space."""
    texts = {}
    for path in DOCUMENTS.glob("*.txt"):
        try:
            texts[path.name] = " ".join(path.read_bytes().decode("utf-8").lower().split())
        except UnicodeDecodeError:
            pass
    return texts


def word_shingles(size: int) -> Sets:
    words = {name: re.findall(r"\w+", text) for name, text in normalised().items()}
    return shingles(words, size)


def shingles(units: dict[str, Any], size: int) -> Sets:
    sets = {
        name: {tuple(of[start : start + size]) for start in range(len(of) - size + 1)} for name, of in units.items()
    }
    return {name: own for name, own in sets.items() if own}


def similar_pairs(sets: Sets, threshold: float) -> dict[tuple[str, str], tuple[float, float, float]]:
    found = {}
    for a, b in itertools.combinations(sorted(sets), 2):
        shared = len(sets[a] & sets[b])
        jaccard = shared / len(sets[a] | sets[b])
        if jaccard >= threshold:
            found[a, b] = jaccard, shared / len(sets[a]), shared / len(sets[b])
    return found


def scores(pair: Any) -> tuple[float, float, float]:
    return pair.jaccard, pair.containment_a, pair.containment_b


def test_run_finds_the_pairs_and_scores_of_plain_python(quickstart: resemblance.Run) -> None:
    expected = similar_pairs(word_shingles(3), 0.5)
    assert len(expected) == 7
    found = {
        (row["id_a"], row["id_b"]): (row["jaccard"], row["containment_a"], row["containment_b"])
        for row in quickstart.pairs.to_arrow().to_pylist()
    }
    assert found == {pair: pytest.approx(values, abs=1e-12) for pair, values in expected.items()}


def test_run_makes_the_clusters_of_plain_python(quickstart: resemblance.Run) -> None:
    sets = word_shingles(3)
    paired = similar_pairs(sets, 0.5)
    order = sorted({name for pair in paired for name in pair}, key=lambda name: (-len(sets[name]), name))
    cluster: dict[str, str] = {}
    for name in order:
        joins = (own for own in order if cluster.get(own) == own and (min(own, name), max(own, name)) in paired)
        cluster[name] = next(joins, name)
    smallest = {name: min(other for other in cluster if cluster[other] == of) for name, of in cluster.items()}
    rows = quickstart.clusters.to_arrow().to_pylist()
    assert {row["id"]: row["cluster_id"] for row in rows} == smallest


def test_run_compares_every_text_that_has_shingles(quickstart: resemblance.Run) -> None:
    rows = quickstart.documents.to_arrow().to_pylist()
    assert {row["id"]: row["shingle_count"] for row in rows} == {
        name: len(own) for name, own in word_shingles(3).items()
    }
    reasons = {row["id"]: row["reason"] for row in quickstart.rejects.to_arrow().to_pylist()}
    assert reasons == {"broken.txt": "invalid_utf8", "empty.txt": "empty_text", "too-short.txt": "too_short"}


@pytest.mark.parametrize("threshold", [0.25, 0.875])
def test_find_gives_the_pairs_and_scores_of_plain_python(threshold: float) -> None:
    expected = similar_pairs(shingles(normalised(), 9), threshold)
    found = resemblance.find(DOCUMENTS, unit="char", threshold=threshold, all=True)
    assert {(pair.id_a, pair.id_b): scores(pair) for pair in found} == {
        pair: pytest.approx(values, abs=1e-12) for pair, values in expected.items()
    }
    assert [pair.jaccard for pair in found] == sorted((pair.jaccard for pair in found), reverse=True)


def test_neighbors_have_the_scores_of_plain_python(quickstart: resemblance.Run) -> None:
    sets = word_shingles(3)
    own = sets["garden.txt"]
    found = resemblance.neighbors(quickstart, id="garden.txt", by="jaccard")
    assert [neighbor.id for neighbor in found][:2] == ["garden-edited.txt", "garden-rewritten.txt"]
    for neighbor in found:
        other = sets[str(neighbor.id)]
        shared = len(own & other)
        expected = shared / len(own | other), shared / len(own), shared / len(other)
        assert scores(neighbor) == pytest.approx(expected, abs=1e-12)
        assert (neighbor.shared, neighbor.shingles_a, neighbor.shingles_b) == (shared, len(own), len(other))


def test_generate_plants_pairs_that_a_run_finds(tmp_path: Any) -> None:
    made = resemblance.generate(tmp_path / "corpus", documents=300, words=40, truth=tmp_path / "truth.parquet", seed=7)
    assert made.truth is not None and made.documents.rows == 300
    run = resemblance.run(
        {
            "source": {"format": "parquet", "url": tmp_path / "corpus", "id": "id", "text": "text"},
            "candidates": {"method": "all"},
            "score": {"threshold": 0.65},
            "output": {"url": tmp_path / "out"},
        }
    )
    import pyarrow.parquet

    truth = pyarrow.parquet.read_table(tmp_path / "truth.parquet").to_pylist()
    planted = {
        frozenset((row["id_a"], row["id_b"])): pytest.approx(row["jaccard"], abs=1e-12)
        for row in truth
        if row["jaccard"] >= 0.65
    }
    found = {frozenset((row["id_a"], row["id_b"])): row["jaccard"] for row in run.pairs.to_arrow().to_pylist()}
    assert len(truth) == made.truth.rows and planted
    assert found == planted
