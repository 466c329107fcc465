"""Finished outputs: the tables of a run, with the files that its manifest names."""

from __future__ import annotations

import json
import os
from typing import Any, Optional, Union

import pyarrow
import pyarrow.dataset

from .alarms import Alarm
from .errors import InputError
from .frames import HTML_ROWS, Frame, html_table
from .storage import absolute, filesystem


class Table(Frame):
    """A table of a finished output.

    It consists of exactly the files that the manifest names, without files that other runs left in the folder.
    """

    def __init__(self, name: str, rows: int, location: str, files: list[str]) -> None:
        #: Its name, such as `pairs`.
        self.name = name
        #: The number of its rows.
        self.rows = rows
        #: Its files, as paths within the output.
        self.files = files
        self._location = location

    def __len__(self) -> int:
        return self.rows

    def __bool__(self) -> bool:
        # It exists, even if it has no rows.
        return True

    def __repr__(self) -> str:
        return f"<table {self.name} of {self._location}: {self.rows} rows in {len(self.files)} files>"

    def dataset(self) -> pyarrow.dataset.Dataset:
        """The table as a dataset, which reads only the columns and rows that a query needs."""
        found, folder = filesystem(self._location)
        paths = [f"{folder}/{file}" for file in self.files]
        return pyarrow.dataset.dataset(paths, format="parquet", filesystem=found)

    def to_arrow(self) -> pyarrow.Table:
        """All rows as an Arrow table in memory."""
        return self.dataset().to_table()

    def head(self, rows: int = 5) -> pyarrow.Table:
        """The first rows as an Arrow table; no more are read."""
        return self.dataset().head(rows)

    def _repr_html_(self) -> str:
        return html_table(self.head(HTML_ROWS), self.rows)

    def _scannable(self) -> Any:
        # DuckDB reads only the part of a dataset that a query needs.
        return self.dataset()


class Output:
    """A finished output."""

    def __init__(self, location: str, manifest: dict[str, Any]) -> None:
        #: The full path of its folder, or its URL.
        self.output = location
        #: Its `manifest.json`: the job, the inputs, counts, seconds and files.
        self.manifest = manifest

    def __repr__(self) -> str:
        return f"<{type(self).__name__.lower()} {self.output}: {self.counts.get('pairs', 0)} pairs>"

    def _repr_html_(self) -> str:
        return self.pairs._repr_html_()

    def head(self, rows: int = 5) -> pyarrow.Table:
        """The first rows of the table `pairs` as an Arrow table; no more are read."""
        return self.pairs.head(rows)

    @property
    def counts(self) -> dict[str, int]:
        """The counts of the run by name, such as `documents`, `pairs` and `clusters`."""
        return dict(self.manifest["counts"])

    @property
    def removed_share(self) -> float:
        """The share of documents that `apply` would remove; 0 if there are no documents."""
        counts = self.counts
        return counts["removed_documents"] / counts["documents"] if counts["documents"] else 0.0

    @property
    def tables(self) -> dict[str, Table]:
        """All tables by name."""
        return {
            name: Table(name, table["rows"], self.output, [file["path"] for file in table["files"]])
            for name, table in self.manifest["tables"].items()
        }

    @property
    def pairs(self) -> Table:
        """One row for two similar documents."""
        return self.tables["pairs"]

    @property
    def clusters(self) -> Table:
        """One row for a document that has a pair."""
        return self.tables["clusters"]

    @property
    def documents(self) -> Table:
        """One row for a document that was compared."""
        return self.tables["documents"]

    @property
    def rejects(self) -> Table:
        """One row for a document that was read and not compared, with the reason."""
        return self.tables["rejects"]

    @property
    def spans(self) -> Table:
        """One row for a place of a passage that repeats inside documents, if the job has the section `[passages]`."""
        return self._of_passages("spans")

    @property
    def passages(self) -> Table:
        """One row for such a passage."""
        return self._of_passages("passages")

    def _of_passages(self, name: str) -> Table:
        table = self.tables.get(name)
        if table is None:
            raise InputError(f"{self.output} has no table {name}: add the section [passages] to the job and run it again")
        return table


class Run(Output):
    """A run that ended well, and its output."""

    def __init__(self, record: dict[str, Any]) -> None:
        manifest = record["manifest"]
        super().__init__(absolute(manifest["job"]["output"]["url"]), manifest)
        #: The run's record, as `resemblance run --json` prints it.
        self.record = record

    @property
    def run_id(self) -> str:
        """The name of the run in logs, records and metrics."""
        return str(self.record["run_id"])

    @property
    def seconds(self) -> float:
        """The seconds that it took."""
        return float(self.record["seconds"])

    @property
    def alarms(self) -> list[Alarm]:
        """The bounds that the job's `[alarms]` set, and what the output has."""
        return [Alarm.of_record(record) for record in self.record["alarms"]]

    @property
    def already_finished(self) -> bool:
        """Whether the same job over the same inputs had already run, so that nothing was done."""
        return bool(self.record["already_finished"])


#: A finished output: its path or URL, or what `run` and `open` returned.
Location = Union[Output, str, "os.PathLike[str]"]


def open_output(output: Location) -> Output:
    """Opens a finished output, to read its tables.

    Args:
        output: what a job names as `output.url`: a folder or a URL.

    Raises:
        InputError: there is no finished output.
    """
    if isinstance(output, Output):
        return output
    location = absolute(output)
    found, folder = filesystem(location)
    manifest: Optional[bytes] = None
    try:
        with found.open_input_stream(f"{folder}/manifest.json") as stream:
            manifest = stream.read()
    except FileNotFoundError:
        raise InputError(
            f"{location} holds no finished output (no manifest.json): name what a job has as output.url, "
            "and run that job to its end"
        ) from None
    except OSError as error:
        raise InputError(f"{location} cannot be read", [str(error)]) from error
    return Output(location, json.loads(manifest))


def location_of(output: Location) -> str:
    """The location of an output as an argument of the command."""
    return output.output if isinstance(output, Output) else os.fspath(output)
