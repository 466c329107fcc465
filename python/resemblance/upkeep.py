"""The commands for outputs, apply, verify, clean and merge, and the one that generates a corpus."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Optional, Union

from .output import Location, Output, location_of, open_output
from .process import call
from .source import Places, source_options


@dataclass(frozen=True)
class Losses:
    """What is lost by removing documents. A number that the output does not have is None."""

    #: Documents that stay although another one represents their cluster.
    spared: int
    #: Documents that go and lose more than 2 % of their shingles.
    lossy_removals: Optional[int]
    #: Shingles that no document of their cluster has any more.
    lost_shingles: Optional[int]


@dataclass(frozen=True)
class RemovedSpans:
    """The occurrences of passages that were cut out of documents or marked, because another one stays."""

    spans: int
    #: Documents with such occurrences.
    documents: int
    words: int
    #: Bytes of UTF-8.
    bytes: int
    #: Documents that were removed because too few words are left of them.
    too_short: int


@dataclass(frozen=True)
class Sizes:
    """The sizes that `apply` added with the argument `columns`."""

    #: Documents that got the columns.
    documents: int
    #: The sum of their sizes.
    represented: int
    #: The largest size.
    largest: int


@dataclass(frozen=True)
class Applied:
    """The counts of a source's documents: kept + removed + rejected = read."""

    read: int
    kept: int
    removed: int
    #: Documents that the job rejected, whether they are kept or not.
    rejected: int
    #: Files that were written; None for a dry run.
    files: Optional[int]
    #: Whether the result already existed.
    already_finished: bool
    losses: Losses
    #: None from `dedup`, which does not cut.
    passages: Optional[RemovedSpans] = None
    #: None without `columns`.
    sizes: Optional[Sizes] = None
    #: Texts by their number of documents, before and after; None without `keep_up_to`.
    repeats: Optional[list[dict[str, Any]]] = None
    #: The figures in `_resemblance/proof.json`; None if none is required.
    proof: Optional[dict[str, Any]] = None

    @classmethod
    def of_record(cls, record: dict[str, Any]) -> Applied:
        """The counts in the JSON object of a command."""
        names = ("read", "kept", "removed", "rejected", "files", "already_finished")
        counts: dict[str, Any] = {name: record.get(name) for name in (*names, "repeats", "proof")}
        passages = RemovedSpans(**record["passages"]) if "passages" in record else None
        sizes = Sizes(**record["sizes"]) if record.get("sizes") else None
        return cls(**counts, losses=Losses(**record["losses"]), passages=passages, sizes=sizes)


def apply(
    output: Location,
    to: Union[str, os.PathLike[str], None] = None,
    *,
    rejects: Optional[str] = None,
    annotate: bool = False,
    columns: Optional[Iterable[str]] = None,
    passages: Optional[str] = None,
    min_words: Optional[int] = None,
    tables: Optional[str] = None,
    contained: Optional[float] = None,
    removed_share: Optional[float] = None,
    largest_cluster: Optional[int] = None,
    min_documents: Optional[int] = None,
    max_rejected_share: Optional[float] = None,
    keep_up_to: Union[int, str, None] = None,
    identical: bool = False,
    require: Optional[str] = None,
    sample: Optional[int] = None,
    seed: Optional[int] = None,
    labels: Union[str, os.PathLike[str], None] = None,
    scheduler: Optional[str] = None,
    dry_run: bool = False,
    source: Optional[Places] = None,
    memory: Optional[str] = None,
    progress: bool = False,
) -> Applied:
    """Writes the source of a finished output without its duplicates.

    Args:
        output: a finished output, the content of whose source has not changed.
        to: the folder or URL to write to, which must be empty. A dry run needs no folder.
        rejects: what happens to documents that the job rejected: "keep", "drop" or "separate".
        annotate: whether every document stays, and gets the columns cluster_id, representative and kept_id.
        columns: columns that the documents which stay get: "cluster_size", the number of documents that a document represents, and
            "group_sizes", the same by group as a JSON object.
        passages: what happens to passages that repeat inside documents, except for the occurrence that stays: "mark" adds the column
            repeated_spans, "cut" cuts them out, and "drop" also removes documents that become too short.
        min_words: with passages="drop", the fewest words that a document must have after the cut; 50 by default.
        tables: the format of the kept and the removed documents: "parquet", or "delta" for Delta tables.
        contained: the least share of its shingles that the representative of a removed document has, such as 0.98, instead of
            clusters.contained of the job.
        removed_share: the largest share of documents that may be removed, instead of alarms.removed_share of the job.
        largest_cluster: the largest number of documents of a cluster, instead of alarms.largest_cluster of the job.
        min_documents: the smallest number of compared documents, instead of alarms.min_documents of the job.
        max_rejected_share: the largest share of documents that the run rejected, instead of alarms.max_rejected_share of the job.
        keep_up_to: how many documents of each cluster stay, such as 3, or of each value of a column, such as "shop=2".
        identical: with keep_up_to, whether documents with byte-identical texts can stay.
        require: figures that must be proven, such as "recall>=0.95,lossy<=0.02", instead of alarms.require of the job.
        sample: the number of shingle sets to draw for the proof; 1,000 by default.
        seed: the seed of the draw; 1 by default.
        labels: a file with labels of the pairs of an audit, which measure the precision.
        scheduler: the cluster whose executors write the files, such as "df://host:50050"; without one, this machine writes them.
        dry_run: whether documents are only counted.
        source: where the source is now, if it was moved; a list for a source of several URLs, in their order.
        memory: the most memory to use, such as "4GiB".
        progress: whether stages are reported on `sys.stderr`, or as a bar in a notebook. Warnings always are.

    Raises:
        JobError: `to` holds other files, or overlaps with the source or the output.
        InputError: the source is gone or has changed, or a file cannot be read or written.
        AlarmError: a bound of the job's alarms is exceeded, and they have fail = true. Or a required figure is not proven.
    """
    given = {
        "to": None if to is None else os.fspath(to),
        "rejects": rejects,
        "passages": passages,
        "min-words": min_words,
        "tables": tables,
        "contained": contained,
        "removed-share": removed_share,
        "largest-cluster": largest_cluster,
        "min-documents": min_documents,
        "max-rejected-share": max_rejected_share,
        "keep-up-to": keep_up_to,
        "require": require,
        "sample": sample,
        "seed": seed,
        "labels": None if labels is None else os.fspath(labels),
        "scheduler": scheduler,
        "memory": memory,
    }
    options = [f"--{name}={value}" for name, value in given.items() if value is not None]
    options += ["--annotate"] if annotate else []
    options += [f"--columns={column}" for column in columns or ()]
    options += ["--identical"] if identical else []
    options += ["--dry-run"] if dry_run else []
    options += source_options(source)
    applied = json.loads(call(["apply", "--json", *options, "--", location_of(output)], progress=progress))
    return Applied.of_record(applied)


@dataclass(frozen=True)
class Verified:
    """An output that matches its manifest."""

    files: int
    bytes: int


def verify(output: Location) -> Verified:
    """Reads every file of a finished output and compares its bytes with the manifest. Changes nothing.

    Raises:
        InputError: a file is gone or damaged; the message names it.
    """
    verified = json.loads(call(["verify", "--json", "--", location_of(output)]))
    return Verified(verified["files"], verified["bytes"])


@dataclass(frozen=True)
class Cleaned:
    """The files that were removed from an output, or would be."""

    files: int
    bytes: int
    #: Files of other programs in the output, which stay.
    foreign: int
    dry_run: bool


def clean(output: Location, *, dry_run: bool = False) -> Cleaned:
    """Removes the leftovers of dead runs from an output. Only files that the program itself wrote are removed.

    Args:
        output: a finished or an unfinished output.
        dry_run: whether files are only counted.

    Raises:
        InputError: a run writes to the output.
    """
    options = ["--dry-run"] if dry_run else []
    cleaned = json.loads(call(["clean", "--json", *options, "--", location_of(output)]))
    return Cleaned(cleaned["files"], cleaned["bytes"], cleaned["foreign"], cleaned["dry_run"])


def merge(
    outputs: Iterable[Location],
    to: Union[str, os.PathLike[str]],
    *,
    overwrite: bool = False,
    progress: bool = False,
) -> Output:
    """Makes one output of several, as if one run had read all of their documents. Reads no text; the outputs stay.

    Args:
        outputs: the outputs of runs that continue each other with `against`, in the order in which they were made.
        to: the folder or URL of the new output.
        overwrite: whether an existing result is replaced, once the new one is complete.
        progress: whether stages are reported on `sys.stderr`, or as a bar in a notebook. Warnings always are.

    Raises:
        JobError: an output is missing that another one was made against, or they were made with different settings.
        InputError: an output is damaged or unfinished.
    """
    options = ["--overwrite"] if overwrite else []
    places = [location_of(output) for output in outputs]
    call(["merge", "--json", *options, "--to", os.fspath(to), "--", *places], progress=progress)
    return open_output(to)


@dataclass(frozen=True)
class Written:
    """Files that were written."""

    rows: int
    bytes: int
    files: list[str]


@dataclass(frozen=True)
class Generated:
    """A generated corpus."""

    documents: Written
    #: The planted pairs; None if no file for them was named.
    truth: Optional[Written]


def generate(
    out: Union[str, os.PathLike[str]],
    *,
    documents: Optional[int] = None,
    source: Union[str, os.PathLike[str], None] = None,
    text: Optional[str] = None,
    id: Optional[str] = None,
    words: Optional[int] = None,
    seed: Optional[int] = None,
    shingle: Optional[int] = None,
    vocabulary: Optional[int] = None,
    copies: Optional[float] = None,
    near: Optional[float] = None,
    jaccards: Optional[Iterable[float]] = None,
    contained: Optional[float] = None,
    boilerplate: Optional[float] = None,
    boilerplate_words: Optional[int] = None,
    identical: Optional[int] = None,
    files: Optional[int] = None,
    truth: Union[str, os.PathLike[str], None] = None,
    overwrite: bool = False,
    progress: bool = False,
) -> Generated:
    """Generates documents with copies, near-duplicates and passages of others, so that the similar pairs are known.

    Arguments that are not given have the command's defaults: see `resemblance generate --help`.

    Args:
        out: a file that ends in .parquet, or a folder.
        documents: how many; of a source, at most so many, and all of them unless given.
        source: a file, folder, pattern or URL into whose documents others are planted, instead of made-up ones.
        text: the column of the texts of a source; not needed if only one column holds text.
        id: the column of its ids.
        words: words in a document, on average.
        seed: the seed of all random numbers. The same settings give the same documents.
        shingle: words in a shingle, for which the similarities are stated.
        vocabulary: different words.
        copies: the share of documents that are another one, word for word.
        near: the share of documents that are another one with some words replaced.
        jaccards: the similarities of those, in turn.
        contained: the share of documents that are half of another one.
        boilerplate: the share of the other documents that begin with the same passage; of a source, the share of documents under a
            common header.
        boilerplate_words: the words of that passage.
        identical: the number of documents that are all the same.
        files: how many files are written into the folder.
        truth: a Parquet file for the planted pairs: id_a, id_b, kind, jaccard, size.
        overwrite: whether an earlier corpus of this command is replaced.
        progress: whether stages are reported on `sys.stderr`, or as a bar in a notebook. Warnings always are.
    """
    given: dict[str, Any] = {
        "documents": documents,
        "from": None if source is None else os.fspath(source),
        "text": text,
        "id": id,
        "words": words,
        "seed": seed,
        "shingle": shingle,
        "vocabulary": vocabulary,
        "copies": copies,
        "near": near,
        "jaccards": None if jaccards is None else ",".join(map(str, jaccards)),
        "contained": contained,
        "boilerplate": boilerplate,
        "boilerplate-words": boilerplate_words,
        "identical": identical,
        "files": files,
        "truth": None if truth is None else os.fspath(truth),
    }
    options = [f"--{name}={value}" for name, value in given.items() if value is not None]
    if overwrite:
        options.append("--overwrite")
    printed = json.loads(call(["generate", "--json", *options, "--", os.fspath(out)], progress=progress))
    planted = printed["truth"]
    return Generated(_written(printed["documents"]), None if planted is None else _written(planted))


def _written(written: dict[str, Any]) -> Written:
    return Written(written["rows"], written["bytes"], written["files"])
