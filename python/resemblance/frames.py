"""Conversions of results with rows: to Arrow, and if they are installed, to pandas, Polars and DuckDB."""

from __future__ import annotations

import html
import importlib
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Optional

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars
    import pyarrow


class Frame(ABC):
    """Rows that can be converted to tables of several libraries."""

    @abstractmethod
    def to_arrow(self) -> pyarrow.Table:
        """All rows as an Arrow table in memory."""

    def to_pandas(self) -> pandas.DataFrame:
        """All rows as a pandas data frame.

        Raises:
            ImportError: pandas is not installed.
        """
        _library("pandas", "to_pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """All rows as a Polars data frame.

        Raises:
            ImportError: Polars is not installed.
        """
        frame: polars.DataFrame = _library("polars", "to_polars").from_arrow(self.to_arrow())
        return frame

    def to_duckdb(self, con: Optional[duckdb.DuckDBPyConnection] = None) -> duckdb.DuckDBPyRelation:
        """The rows as a relation of DuckDB, on the connection `con` or else on DuckDB's default one.

        Raises:
            ImportError: DuckDB is not installed.
        """
        library = _library("duckdb", "to_duckdb")
        return (library if con is None else con).from_arrow(self._scannable())

    def _scannable(self) -> Any:
        """The object from which DuckDB reads."""
        return self.to_arrow()


def _library(name: str, method: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            f"{method} needs {name}, which is not installed: pip install {name} (or resemblance[{name}])", name=name
        ) from error


#: Rows that a notebook shows.
HTML_ROWS = 10


def html_table(shown: pyarrow.Table, rows: int) -> str:
    """The rows `shown`, out of `rows` in all, as a table for notebooks."""

    def cell(value: Any) -> str:
        text = f"{value:.6f}" if isinstance(value, float) else "" if value is None else str(value)
        return html.escape(text if len(text) <= 100 else text[:100] + "…")

    head = "".join(f"<th>{html.escape(name)}</th>" for name in shown.column_names)
    body = "".join(
        "<tr>" + "".join(f"<td>{cell(value)}</td>" for value in row.values()) + "</tr>" for row in shown.to_pylist()
    )
    more = f"<p>{shown.num_rows} of {rows} rows</p>" if rows > shown.num_rows else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"
