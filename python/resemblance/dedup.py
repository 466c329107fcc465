"""The command that removes near-duplicates without a job: dedup."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any, Literal, Optional, Union, cast

import pyarrow.parquet

from .in_memory import TEXT, Columns, Data, as_file, in_memory, kept_rows, named_columns, to_table
from .lookups import call_on_files, refuse_rows, rows_options, search_options
from .process import call
from .upkeep import Applied


def dedup(
    data: Data,
    to: Union[str, os.PathLike[str], None] = None,
    *,
    text: Optional[Columns] = None,
    id: Optional[str] = None,
    threshold: Optional[float] = None,
    size: Optional[int] = None,
    unit: Optional[Literal["word", "char"]] = None,
    all: bool = False,
    where: Optional[str] = None,
    limit: Union[int, str, None] = None,
    keep: Union[str, Sequence[str]] = "longest",
    rejects: Literal["keep", "drop", "separate"] = "keep",
    dry_run: bool = False,
    progress: bool = False,
) -> Any:
    """The data without near-duplicates: one of similar documents stays.

    Args:
        data: texts or rows (dicts), as a list or a generator; a dict with a text for each id, or with a list for each column;
            or a data frame of pandas, Polars or Arrow, or a `Dataset` of Hugging Face. The rest is returned as the same type:
            a list for a generator, and a table for a `pyarrow.dataset.Dataset`. Or the path or URL of data files (Parquet,
            CSV, JSON lines, a Delta table); the rest is written to `to`.
        to: the folder or URL to write to, which must be empty; for files alone.
        text: the column of the texts, or a list of columns; not needed if only one column holds text.
        id: the column of the ids.
        threshold: two documents of this similarity or more are near-duplicates; over 0 and at most 1; 0.8 unless given.
        size: words (or characters) in a shingle; 5 words, or 9 characters, unless given.
        unit: what shingles are made of; words, unless given.
        all: whether every two documents are compared, which is exact and quadratic.
        where: for data files, the condition in SQL that rows must meet to be compared, such as `"lang = 'en'"`; the others stay.
        limit: for data files, the number of rows to compare, or their share, such as `"10%"`: a sample, the same every time.
        keep: which of similar documents stays: "longest" (the most different shingles), "first", "last", or a column, such as
            `"stars desc"` for the one with the greatest value. Of a list, the first rule by which two documents differ decides.
        rejects: what happens to documents that cannot be compared, such as empty texts: "keep", "drop", or for files "separate".
        dry_run: for files, whether documents are only counted.
        progress: whether stages are reported on `sys.stderr`, or as a bar in a notebook. Warnings always are.

    Returns:
        The rest of the data in memory; for files an `Applied`.

    Raises:
        TypeError: `to`, `dry_run`, `where`, `limit` or "separate" is given for data in memory, or neither of the first two for files.
        ValueError: a data frame has no such column, or several of text and none is named.
    """
    options = search_options(threshold, size, unit, all)
    rules = keep if isinstance(keep, str) else ",".join(keep)
    options += [f"--keep={rules}", f"--rejects={rejects}"]
    documents = in_memory(data)
    if documents is not None:
        if to is not None or dry_run or rejects == "separate":
            raise TypeError(
                "dedup returns the kept documents of data in memory: leave out to and dry_run, and let rejects be keep or drop"
            )
        refuse_rows(where, limit)
        table = to_table(documents, text, id)
        if table.num_rows == 0:
            return kept_rows(documents, [])
        return _kept(documents, table, rules, options, progress)
    if to is None and not dry_run:
        raise TypeError("dedup of files needs `to`, the folder to write to, or dry_run=True")
    options += rows_options(text, id, where, limit)
    options += ["--dry-run"] if dry_run else [f"--to={os.fspath(to)}"]  # type: ignore[arg-type]
    record = json.loads(call_on_files(["dedup", "--json", *options, "--", os.fspath(cast(Any, data))], progress=progress))
    return Applied.of_record(record)


#: The columns of a file with data in memory, by names that data do not have.
_ROW, _BODY = "_row_number_", "_text_"


def _kept(data: Any, table: pyarrow.Table, rules: str, options: list[str], progress: bool) -> Any:
    # The rows are identified by their numbers, not by their ids.
    numbers = pyarrow.array(range(table.num_rows), pyarrow.int64())
    table = pyarrow.table({**named_columns(data, rules), _ROW: numbers, _BODY: table.column(TEXT)})
    with as_file(table) as folder:
        clean = os.path.join(folder, "clean")
        options = [*options, f"--text={_BODY}", f"--id={_ROW}", f"--to={clean}"]
        call(["dedup", "--json", *options, "--", os.path.join(folder, "data.parquet")], progress=progress)
        kept = pyarrow.parquet.read_table(os.path.join(clean, "data.parquet"), columns=[_ROW])
    stays = set(kept.column(_ROW).to_pylist())
    return kept_rows(data, [number in stays for number in range(table.num_rows)])
