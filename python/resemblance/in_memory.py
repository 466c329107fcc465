"""Data in memory: texts, rows and data frames, written to a Parquet file for the command."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import compress
from typing import Any, Optional, Union

import pyarrow
import pyarrow.compute
import pyarrow.dataset
import pyarrow.parquet

from .errors import ResemblanceError

#: Texts or rows, a dict, a data frame, or the path or URL of files.
Data = Union[str, "os.PathLike[str]", Iterable[Optional[str]], Iterable[Mapping[str, Any]], Mapping[Any, Any], Any]

#: The column of the texts, or several: as a list, or with commas.
Columns = Union[str, Sequence[str]]

#: A column that holds the ids, or the row numbers from 0.
ID = "id"
#: A column that holds the texts.
TEXT = "text"


def in_memory(data: object) -> Any:
    """`data` as a list, a dict or a data frame; None for the path or URL of files. Reads a generator to its end.

    Raises:
        TypeError: `data` is a lazy frame, has several datasets, or is nothing that holds documents.
    """
    if isinstance(data, (str, bytes, os.PathLike)):
        return None
    if hasattr(data, "collect") and hasattr(data, "lazy"):
        raise TypeError("a lazy frame has no rows yet: pass what its collect() returns")
    if hasattr(data, "with_format") and not _is_dataset(data):
        raise TypeError(
            "this holds several datasets, or streams one: pass a dataset that is loaded, such as data['train'], "
            "or iter(data) to load a stream"
        )
    if isinstance(data, pyarrow.RecordBatchReader):
        return data.read_all()
    arrow = ("__arrow_c_stream__", "__arrow_c_array__", "to_arrow", "loc")
    is_frame = any(hasattr(data, name) for name in arrow) or isinstance(data, pyarrow.dataset.Dataset)
    if is_frame or _is_dataset(data) or isinstance(data, (Sequence, Mapping)):
        return data
    if isinstance(data, Iterable):
        return list(data)
    raise TypeError(f"expected texts, a data frame or a path, not a value of the type {type(data).__name__}")


def _is_dataset(data: Any) -> bool:
    """Whether `data` is a loaded dataset of Hugging Face."""
    module = sys.modules.get("datasets")
    return module is not None and isinstance(data, module.Dataset)


def to_table(data: Any, text: Optional[Columns], id: Optional[str]) -> pyarrow.Table:
    """The ids and the texts of `data`: (id, text). The ids are row numbers unless `id` names a column.

    Raises:
        TypeError: `data` has values that are neither texts nor rows, or a column is named and there are only texts.
        ValueError: there is no such column, or `text` is not given and several columns hold text.
    """
    values = _values(data)
    if values is not None:
        if values and (text is not None or id is not None):
            raise TypeError("texts have no columns: leave out text and id")
        wrong = next((at for at, value in enumerate(values) if not isinstance(value, (str, type(None)))), None)
        if wrong is not None:
            raise TypeError(f"expected texts, but element {wrong} is of the type {type(values[wrong]).__name__}")
        texts = pyarrow.array(values, pyarrow.string())
        return pyarrow.table({ID: pyarrow.array(range(len(values)), pyarrow.int64()), TEXT: texts})
    table = _arrow(data)
    texts = _texts(table, text, id)
    if id is not None and id not in table.column_names:
        raise ValueError(f"there is no column {id!r}; the columns are {', '.join(table.column_names)}")
    ids = pyarrow.array(range(table.num_rows), pyarrow.int64()) if id is None else table.column(id)
    return pyarrow.table({ID: ids, TEXT: texts})


def labels(data: Any) -> Optional[list[Any]]:
    """The labels by which users find a row: the index of pandas, or the keys of a dict of texts. None: the row numbers.

    Raises:
        TypeError: the labels are of several types.
        ValueError: two rows have the same label.
    """
    if isinstance(data, Mapping):
        found = list(data) if _values(data) is not None else None
    else:
        found = data.index.tolist() if hasattr(data, "loc") else None
    other = "pass frame.reset_index(drop=True), or name a column as id="
    try:
        pyarrow.array(found or [])
    except pyarrow.ArrowException:
        raise TypeError(f"the ids of the rows are of several types: use keys of one type, {other}") from None
    if found is not None and len(set(found)) < len(found):
        raise ValueError(f"the index has the same label in several rows: {other}")
    return found


@contextmanager
def as_file(table: pyarrow.Table) -> Iterator[str]:
    """A temporary folder in which `data.parquet` has the rows of `table`. Errors do not name the file, which users do not know."""
    with tempfile.TemporaryDirectory(prefix="resemblance-") as folder:
        file = os.path.join(folder, "data.parquet")
        pyarrow.parquet.write_table(table, file)
        try:
            yield folder
        except ResemblanceError as error:
            texts = [text.replace(file, "the data") for text in (error.message, *error.causes)]
            raise type(error)(texts[0], texts[1:], error.exit_code) from None


def named_columns(data: Any, rules: str) -> dict[str, Any]:
    """The columns of `data` that the rules of `--keep` name."""
    if _values(data) is not None:
        return {}
    table = _arrow(data)
    # Commas in double quotes belong to names, and commas in brackets separate values.
    parts = re.findall(r'(?:"[^"]*"|\([^)]*\)|[^,"(])+', rules)
    named = (re.sub(r" (asc|desc|in \(.*\))$", "", rule.strip()).strip().strip('"') for rule in parts)
    # A column `a.b` may be a field of `a`.
    found = {name if name in table.column_names else name.partition(".")[0] for name in named}
    return {name: table.column(name) for name in table.column_names if name in found}


def kept_rows(data: Any, kept: Sequence[bool]) -> Any:
    """The kept rows of `data`, as the same type. A dataset of Arrow becomes a table, and columns of a dict become lists."""
    if isinstance(data, Mapping):
        if _values(data) is not None:
            return dict(compress(data.items(), kept))
        return {name: list(compress(column, kept)) for name, column in data.items()}
    if _is_dataset(data):
        return data.select([number for number, stays in enumerate(kept) if stays])
    if isinstance(data, Sequence):
        return list(compress(data, kept))
    if isinstance(data, (pyarrow.Table, pyarrow.Array, pyarrow.ChunkedArray)):
        return data.filter(pyarrow.array(kept, pyarrow.bool_()))
    if hasattr(data, "filter") and hasattr(data, "to_arrow"):  # Polars
        import polars

        return data.filter(polars.Series(kept, dtype=polars.Boolean))
    if hasattr(data, "loc"):  # pandas
        return data.loc[list(kept)]
    return _arrow(data).filter(pyarrow.array(kept, pyarrow.bool_()))


def _values(data: Any) -> Optional[list[Any]]:
    """The texts of a list, of a dict with a text for each id, of a Series or of an array; None if `data` has columns.

    Raises:
        TypeError: a dict has both texts and columns.
    """
    if isinstance(data, Mapping):
        texts = [isinstance(value, str) or _is_missing(value) for value in data.values()]
        if any(texts) and not all(texts):
            raise TypeError("expected a dict with a text for each id, or with a list for each column, but this has both")
        return [None if _is_missing(value) else value for value in data.values()] if all(texts) else None
    if hasattr(data, "columns") or hasattr(data, "column_names"):
        return None
    if isinstance(data, Sequence):
        if len(data) > 0 and isinstance(data[0], Mapping):
            return None
        return [None if _is_missing(value) else value for value in data]
    if hasattr(data, "loc"):  # pandas, whose missing values are numbers
        data = pyarrow.Array.from_pandas(data)
    for name in ("to_pylist", "to_list"):
        if hasattr(data, name):
            return list(getattr(data, name)())
    return None


def _is_missing(value: Any) -> bool:
    """Whether `value` stands for a missing text: None, or NaN as in lists from pandas."""
    return value is None or (isinstance(value, float) and value != value)


def _arrow(data: Any) -> pyarrow.Table:
    if isinstance(data, pyarrow.Table):
        return data
    if isinstance(data, pyarrow.dataset.Dataset):
        return data.to_table()
    if _is_dataset(data):
        return data.with_format("arrow")[:]
    if isinstance(data, Sequence):
        return _from_columns(_columns_of_rows(data))
    if isinstance(data, Mapping):
        return _from_columns(data)
    if hasattr(data, "loc") and hasattr(data, "columns"):
        return pyarrow.Table.from_pandas(data, preserve_index=False)
    return data.to_arrow() if hasattr(data, "to_arrow") else pyarrow.table(data)


def _columns_of_rows(rows: Sequence[Any]) -> dict[Any, list[Any]]:
    """The columns of rows that are dicts. A row without a key has None there."""
    wrong = next((at for at, row in enumerate(rows) if not isinstance(row, Mapping)), None)
    if wrong is not None:
        raise TypeError(f"expected a dict for each row, but element {wrong} is of the type {type(rows[wrong]).__name__}")
    return {name: [row.get(name) for row in rows] for name in dict.fromkeys(name for row in rows for name in row)}


def _from_columns(columns: Mapping[Any, Any]) -> pyarrow.Table:
    arrays = {}
    for name, values in columns.items():
        try:
            arrays[str(name)] = pyarrow.array(values, from_pandas=True)
        except (pyarrow.ArrowException, TypeError) as error:
            raise TypeError(f"column {name!r} is no list of values of one type: {error}") from None
    return pyarrow.table(arrays)


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
