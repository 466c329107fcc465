"""The commands that look something up: find, neighbors, show and sql."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any, Literal, Optional, Union, cast

from . import rows
from .errors import JobError
from .in_memory import ID, TEXT, Columns, Data, as_file, in_memory, joined, labels, to_table
from .output import Location, location_of
from .process import call
from .rows import Id, Neighbor, Pair, Rows, ShownPair
from .source import Places, source_options


def find(
    *data: Data,
    text: Optional[Columns] = None,
    id: Optional[str] = None,
    threshold: Optional[float] = None,
    size: Optional[int] = None,
    unit: Optional[Literal["word", "char"]] = None,
    encoding: Optional[str] = None,
    html_as: Optional[Literal["text", "source"]] = None,
    all: bool = False,
    where: Optional[str] = None,
    limit: Union[int, str, None] = None,
    contains: Optional[float] = None,
    top: Optional[int] = None,
    lines: bool = False,
    progress: bool = False,
) -> Rows[Pair]:
    """Finds similar documents without a job, the most similar ones first.

    Args:
        data: texts or rows (dicts), as a list or a generator; a dict with a text for each id, or with a list for each
            column; a data frame of pandas, Polars or Arrow, or a `Dataset` of Hugging Face; data files, whose rows are
            documents (Parquet, CSV, JSON lines, a Delta table); or text files and folders of them. Without `id`, the ids
            are the keys of a dict of texts, the labels of a pandas index, and else the numbers of the rows, from 0.
        text: the column of the texts, or a list of columns; not needed if only one column holds text.
        id: the column of the ids; for data files "row_number" numbers the rows.
        threshold: the least similarity of a pair, over 0 and at most 1; 0.8 unless given.
        size: words (or characters) in a shingle; 5 words, or 9 characters, unless given.
        unit: what shingles are made of; words, unless given.
        encoding: the encoding of the files, such as `latin-1`; detected unless given.
        html_as: "text" compares the text that a browser shows of HTML files, "source" their source; "text" unless given.
        all: whether every two documents are compared, which is exact and quadratic.
        where: for data files, the condition in SQL that rows must meet to be compared, such as `"lang = 'en'"`.
        limit: for data files, the number of rows to compare, or their share, such as `"10%"`: a sample, the same every time.
        contains: instead of `threshold`, the least share of a document that is in the other one. The search is exact.
        top: the most pairs to return, the most similar ones; all of them unless given.
        lines: whether each line of text files is a document. Its id is its number, after the name of the file if there are several.
        progress: whether stages are reported on `sys.stderr`, or as a bar in a notebook. Warnings always are.

    Raises:
        TypeError: `where` or `limit` is given for data in memory.
        ValueError: a data frame has no such column, several of text and none is named, or a label in several rows.
    """
    if not data:
        raise TypeError("find needs texts, a data frame, or at least one file or folder")
    options = search_options(threshold, size, unit, all)
    if encoding is not None:
        options.append(f"--encoding={encoding}")
    if html_as is not None:
        options.append(f"--html-as={html_as}")
    options += _given(contains=contains, top=top)
    documents = in_memory(data[0])
    if documents is not None:
        if len(data) > 1:
            raise TypeError("find takes one list of texts or one data frame")
        if lines:
            raise TypeError("lines is for text files: give the lines as a list of texts")
        refuse_rows(where, limit)
        named = labels(documents) if id is None else None
        with as_file(to_table(documents, text, id)) as folder:
            path = os.path.join(folder, "data.parquet")
            options += [f"--text={TEXT}", f"--id={ID}"]
            return rows.pairs(call(["find", "--json", *options, "--", path], progress=progress), named)
    options += rows_options(text, id, where, limit)
    if lines:
        options.append("--lines")
    files: list[str] = [os.fspath(cast(Any, path)) for path in data]
    return rows.pairs(call_on_files(["find", "--json", *options, "--", *files], progress=progress))


def search_options(threshold: Optional[float], size: Optional[int], unit: Optional[str], all: bool) -> list[str]:
    """The options that `find` and `dedup` share. What is not given has the default of the command."""
    options = _given(threshold=threshold, size=size, unit=unit)
    return [*options, "--all"] if all else options


def rows_options(
    text: Optional[Columns], id: Optional[str], where: Optional[str], limit: Union[int, str, None]
) -> list[str]:
    """The options of `find` and `dedup` that say which columns and rows of data files are read."""
    return _given(text=None if text is None else joined(text), id=id, where=where, limit=limit)


def _given(**options: object) -> list[str]:
    return [f"--{name}={value}" for name, value in options.items() if value is not None]


def call_on_files(arguments: Sequence[str], *, progress: bool) -> str:
    """As `call`, with errors that name the arguments of Python."""
    try:
        return call(arguments, progress=progress)
    except JobError as error:
        raise JobError(error.message.replace("by --text COL", "as text="), error.causes) from None


def refuse_rows(where: Optional[str], limit: Union[int, str, None]) -> None:
    """Raises a `TypeError` if rows are chosen of data in memory."""
    if where is not None or limit is not None:
        raise TypeError("where and limit choose rows of files: choose those of data in memory beforehand")


def neighbors(
    output: Location,
    *,
    id: Optional[Id] = None,
    text: Optional[str] = None,
    file: Union[str, os.PathLike[str], None] = None,
    top: int = 10,
    by: Literal["estimate", "jaccard"] = "estimate",
    source: Optional[Places] = None,
    memory: Optional[str] = None,
) -> Rows[Neighbor]:
    """The documents of a finished output that are most similar to one document.

    Exactly one of `id`, `text` and `file` gives that document.

    Args:
        output: the finished output: a path, a URL, or what `run` returned.
        id: a document of the output.
        text: a text, which need not be in the output.
        file: a text file (UTF-8), which need not be in the output.
        top: most neighbors to return.
        by: the order: by the estimate from the signatures, or by the exact similarity.
        source: where the source is now, if it was moved; a list for a source of several URLs, in their order.
        memory: how much may be held at once, such as `"1GiB"`.
    """
    if sum(given is not None for given in (id, text, file)) != 1:
        raise TypeError("neighbors needs exactly one of id, text and file")
    if id is not None:
        of = f"--id={id}"
    else:
        of = "--text=-" if file is None else f"--text={os.fspath(file)}"
    options = [of, f"--top={top}", f"--by={by}", *source_options(source), *_memory(memory)]
    return rows.neighbors(call(["neighbors", "--json", *options, "--", location_of(output)], stdin=text))


def show(
    output: Location,
    *,
    pairs: Optional[Literal["most-similar", "least-similar", "random"]] = None,
    id: Optional[Id] = None,
    cluster: Optional[Id] = None,
    top: int = 3,
    seed: Optional[int] = None,
    source: Optional[Places] = None,
    memory: Optional[str] = None,
) -> Rows[ShownPair]:
    """Pairs of a finished output with their texts and their common passages.

    The texts are read from the job's source, which must not have changed since the job ran.

    Args:
        output: the finished output: a path, a URL, or what `run` returned.
        pairs: which pairs come first; the most similar ones unless given.
        id: only pairs of this document.
        cluster: instead of pairs, the cluster of this document: its representative with each of the others.
        top: most pairs to return.
        seed: another seed gives other random pairs.
        source: where the source is now, if it was moved; a list for a source of several URLs, in their order.
        memory: how much may be held at once, such as `"1GiB"`.
    """
    given = {"pairs": pairs, "id": id, "cluster": cluster, "top": top, "seed": seed}
    options = [f"--{name}={value}" for name, value in given.items() if value is not None]
    options += [*source_options(source), *_memory(memory)]
    return rows.shown_pairs(call(["show", "--json", *options, "--", location_of(output)]))


def show_passage(
    output: Location,
    passage: str,
    *,
    top: int = 3,
    source: Optional[Places] = None,
    memory: Optional[str] = None,
) -> Rows[dict[str, Any]]:
    """The places of a passage that repeats inside documents, the kept one first.

    A place has `id`, `source`, `char_start`, `char_end` and `kept`, and `reference` where the job has reference documents, whose places
    come last. The texts come from `open(output).passages` (the beginning of each passage) and from the source.

    Args:
        output: the finished output of a job with `[passages]`: a path, a URL, or what `run` returned.
        passage: the id of the passage, or its first digits.
        top: most places to return, and most places in reference documents.
        source: where the source is now, if it was moved; a list for a source of several URLs, in their order.
        memory: how much may be held at once, such as `"1GiB"`.
    """
    options = [f"--passage={passage}", f"--top={top}", *source_options(source), *_memory(memory)]
    return rows.records(call(["show", "--json", *options, "--", location_of(output)]))


def report(
    output: Location,
    to: Union[str, os.PathLike[str], None] = None,
    *,
    before: Optional[Location] = None,
    evaluate: Optional[int] = None,
    labels: Union[str, os.PathLike[str], None] = None,
    seed: int = 1,
    source: Optional[Places] = None,
    memory: Optional[str] = None,
) -> dict[str, Any]:
    """What a finished output found, would remove and may have missed: the content of the page, which `to` names.

    Args:
        output: the finished output: a path, a URL, or what `run` returned.
        to: the HTML file to write; nothing is written without it. The page of an earlier report is replaced.
        before: an earlier output to compare with.
        evaluate: how many shingle sets are drawn to measure the recall, about; it is not measured unless given.
        labels: a file of labels of the pairs, as `evaluate` reads it.
        seed: another seed shows another cluster at random.
        source: where the source is now, if it was moved; a list for a source of several URLs, in their order.
        memory: how much may be held at once, such as `"1GiB"`.
    """
    given = {
        "to": None if to is None else os.fspath(to),
        "before": None if before is None else location_of(before),
        "evaluate": evaluate,
        "labels": None if labels is None else os.fspath(labels),
        "seed": seed,
    }
    options = [f"--{name}={value}" for name, value in given.items() if value is not None]
    options += [*source_options(source), *_memory(memory)]
    return cast("dict[str, Any]", json.loads(call(["report", "--json", *options, "--", location_of(output)])))


def sql(
    output: Location, query: str, *, allow_writes: bool = False, memory: Optional[str] = None
) -> Rows[dict[str, Any]]:
    """The result of a query on the tables of a finished output: pairs, clusters, documents and rejects.

    The rows come as JSON: NULL is None, and dates and times are text.
    If types or many rows matter, take the tables themselves, as in `open(output).pairs.to_duckdb()`.

    Args:
        output: the finished output: a path, a URL, or what `run` returned.
        query: one query in the SQL of DataFusion.
        allow_writes: whether it may write files, read other ones and change settings.
        memory: how much the query may hold at once, such as `"1GiB"`; more goes to disk.
    """
    options = [*(["--allow-writes"] if allow_writes else []), *_memory(memory)]
    return rows.records(call(["sql", "--json", *options, "--", location_of(output), query]))


def _memory(memory: Optional[str]) -> list[str]:
    return [] if memory is None else [f"--memory={memory}"]
