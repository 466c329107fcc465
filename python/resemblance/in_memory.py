"""Data in memory: lists of texts and data frames, written to a Parquet file for the command."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Optional, Union

import pyarrow
import pyarrow.compute
import pyarrow.dataset
import pyarrow.parquet

#: A list or a Series of texts, a data frame, or the path or URL of files.
Data = Union[str, "os.PathLike[str]", Sequence[Optional[str]], Any]

#: The column of the texts, or several: as a list, or with commas.
Columns = Union[str, Sequence[str]]

#: A column that holds the ids, or the row numbers from 0.
ID = "id"
#: A column that holds the texts.
TEXT = "text"


def is_in_memory(data: object) -> bool:
    """Whether `data` is a list or a Series of texts or a data frame, not a path.

    Raises:
        TypeError: `data` is a lazy frame, or has several datasets.
    """
    if isinstance(data, (str, bytes, os.PathLike)):
        return False
    if hasattr(data, "collect") and hasattr(data, "lazy"):
        raise TypeError("a lazy frame has no rows yet: pass what its collect() returns")
    if hasattr(data, "with_format") and not _is_dataset(data):
        raise TypeError("this holds several datasets, or streams one: pass a dataset that is loaded, such as data['train']")
    arrow = hasattr(data, "__arrow_c_stream__") or hasattr(data, "to_arrow")
    return arrow or isinstance(data, (Sequence, pyarrow.dataset.Dataset)) or _is_dataset(data)


def _is_dataset(data: Any) -> bool:
    """Whether `data` is a loaded dataset of Hugging Face."""
    module = sys.modules.get("datasets")
    return module is not None and isinstance(data, module.Dataset)


def to_table(data: Any, text: Optional[Columns], id: Optional[str]) -> pyarrow.Table:
    """The ids and the texts of `data`: (id, text).

    Raises:
        TypeError: `data` is neither a list of texts nor a data frame.
        ValueError: there is no such column, or `text` is not given and several columns hold text.
    """
    values = _column(data)
    if values is not None:
        data = values
    if isinstance(data, Sequence):
        wrong = next((at for at, value in enumerate(data) if not isinstance(value, (str, type(None)))), None)
        if wrong is not None:
            raise TypeError(f"expected a list of texts, but element {wrong} is of the type {type(data[wrong]).__name__}")
        texts = pyarrow.array(data, pyarrow.string())
        return pyarrow.table({ID: pyarrow.array(range(len(data)), pyarrow.int64()), TEXT: texts})
    table = _arrow(data)
    texts = _texts(table, text, id)
    if id is not None and id not in table.column_names:
        raise ValueError(f"there is no column {id!r}; the columns are {', '.join(table.column_names)}")
    ids = pyarrow.array(range(table.num_rows), pyarrow.int64()) if id is None else table.column(id)
    return pyarrow.table({ID: ids, TEXT: texts})


@contextmanager
def as_file(table: pyarrow.Table) -> Iterator[str]:
    """A temporary folder in which `data.parquet` has the rows of `table`."""
    with tempfile.TemporaryDirectory(prefix="resemblance-") as folder:
        pyarrow.parquet.write_table(table, os.path.join(folder, "data.parquet"))
        yield folder


def named_columns(data: Any, rules: str) -> dict[str, Any]:
    """The columns of `data` that the rules of `--keep` name."""
    if _column(data) is not None or isinstance(data, Sequence):
        return {}
    table = _arrow(data)
    # The commas between brackets divide values.
    named = (re.sub(r" (asc|desc|in \(.*\))$", "", rule.strip()) for rule in re.split(r",(?![^(]*\))", rules))
    # A column `a.b` may be a field of `a`.
    found = {name if name in table.column_names else name.partition(".")[0] for name in named}
    return {name: table.column(name) for name in table.column_names if name in found}


def kept_rows(data: Any, kept: Sequence[bool]) -> Any:
    """The kept rows of `data`, as the same type. A dataset of Arrow becomes a table."""
    if _is_dataset(data):
        return data.select([number for number, stays in enumerate(kept) if stays])
    if isinstance(data, Sequence):
        return [value for value, stays in zip(data, kept) if stays]
    if isinstance(data, (pyarrow.Table, pyarrow.Array, pyarrow.ChunkedArray)):
        return data.filter(pyarrow.array(kept, pyarrow.bool_()))
    if hasattr(data, "filter") and hasattr(data, "to_arrow"):  # Polars
        import polars

        return data.filter(polars.Series(kept, dtype=polars.Boolean))
    if hasattr(data, "loc"):  # pandas
        return data.loc[list(kept)]
    return _arrow(data).filter(pyarrow.array(kept, pyarrow.bool_()))


def _column(data: Any) -> Optional[list[Any]]:
    """The values of a Series or an array of Arrow; none of a list and of data with columns."""
    if hasattr(data, "columns") or hasattr(data, "column_names"):
        return None
    if hasattr(data, "loc"):  # pandas, whose missing values are numbers
        data = pyarrow.Array.from_pandas(data)
    for name in ("to_pylist", "to_list"):
        if hasattr(data, name):
            return list(getattr(data, name)())
    return None


def _arrow(data: Any) -> pyarrow.Table:
    if isinstance(data, pyarrow.Table):
        return data
    if isinstance(data, pyarrow.dataset.Dataset):
        return data.to_table()
    if _is_dataset(data):
        return data.with_format("arrow")[:]
    if hasattr(data, "loc") and hasattr(data, "columns"):
        return pyarrow.Table.from_pandas(data, preserve_index=False)
    return data.to_arrow() if hasattr(data, "to_arrow") else pyarrow.table(data)


def _is_text(kind: pyarrow.DataType) -> bool:
    views = getattr(pyarrow.types, "is_string_view", lambda _: False)
    if pyarrow.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return bool(pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind) or views(kind))


def _texts(table: pyarrow.Table, text: Optional[Columns], id: Optional[str]) -> Any:
    """The texts of the rows. Those of several columns are joined by newlines, as a job joins them."""
    if text is None:
        return table.column(_only_text(table, id))
    columns = [text] if isinstance(text, str) else list(text)
    if isinstance(text, str) and text not in table.column_names:
        columns = [name.strip() for name in text.split(",")]
    if not columns:
        raise ValueError("text names no column")
    wrong = next((name for name in columns if name not in table.column_names), None)
    if wrong is not None:
        raise ValueError(f"there is no column {wrong!r}; the columns are {', '.join(table.column_names)}")
    if len(columns) == 1:
        return table.column(columns[0])
    parts = [table.column(name).cast(pyarrow.string()) for name in columns]
    # Without the first, empty part, the function would drop rows in which all columns are null.
    rows = pyarrow.compute.binary_join_element_wise("", *parts, "\n", null_handling="skip")
    texts = pyarrow.compute.utf8_slice_codeunits(rows, 1)
    return pyarrow.compute.if_else(pyarrow.compute.equal(rows, ""), pyarrow.scalar(None, pyarrow.string()), texts)


def joined(columns: Columns) -> str:
    """The columns in the form of the command line.

    Raises:
        ValueError: for an empty list, or a name with a comma in a list of several names.
    """
    if isinstance(columns, str):
        return columns
    if not columns:
        raise ValueError("text names no column")
    if len(columns) > 1 and any("," in name for name in columns):
        raise ValueError("the command line separates columns by commas: rename the column with a comma in its name")
    return ",".join(columns)


def _only_text(table: pyarrow.Table, id: Optional[str]) -> str:
    found: list[str] = [field.name for field in table.schema if _is_text(field.type) and field.name != id]
    if len(found) == 1:
        return found[0]
    if not found:
        raise ValueError(f"no column holds text; the columns are {', '.join(table.column_names)}")
    raise ValueError(f"several columns hold text, {', '.join(found)}: name one of them as text=")
