"""Results that the command prints row by row: sequences of typed rows, which become tables."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable, Generic, Optional, TypeVar, Union, overload

import pyarrow

from .frames import HTML_ROWS, Frame, html_table

#: The id of a document: a number if the source's column has an integer type, and else text.
Id = Union[int, str]

Row = TypeVar("Row")


@dataclass(frozen=True)
class Pair:
    """Two similar documents."""

    id_a: Id
    id_b: Id
    #: The Jaccard similarity of their shingle sets.
    jaccard: float
    #: The share of a's shingles that are in b.
    containment_a: float
    #: The share of b's shingles that are in a.
    containment_b: float


@dataclass(frozen=True)
class Neighbor:
    """A document b that is similar to the document a of the query."""

    id: Id
    #: The share of equal values in the two signatures.
    estimate: float
    #: The exact similarity; None if the source can no longer be read, as in the next four.
    jaccard: Optional[float]
    containment_a: Optional[float]
    containment_b: Optional[float]
    #: Distinct shingles that both have.
    shared: Optional[int]
    shingles_a: int
    shingles_b: int
    #: Bands in which the two share a bucket.
    shared_bands: int


@dataclass(frozen=True)
class Passage:
    """A passage that two texts have in common: `text_a[start_a:end_a]` and `text_b[start_b:end_b]`."""

    start_a: int
    end_a: int
    start_b: int
    end_b: int


@dataclass(frozen=True)
class ShownPair(Pair):
    """Two similar documents with their texts."""

    text_a: str
    text_b: str
    #: The passages of at least a shingle that both texts have. A passage that a text repeats is in the list once per place.
    passages: tuple[Passage, ...]
    #: The cluster of the query; None if it asked for pairs.
    cluster_id: Optional[Id] = None
    #: Whether a is a reference document, of a reference output or of a second source: another document may have its id.
    reference_a: bool = False
    #: The same of b.
    reference_b: bool = False
    #: Whether passages were searched in all of both texts, and not only in the first 100,000 words of each.
    passages_complete: bool = True


class Rows(Sequence[Row], Frame, Generic[Row]):
    """A sequence of rows, which can be converted to a table."""

    def __init__(self, rows: Iterable[Row], to_arrow: Callable[[Sequence[Row]], pyarrow.Table]) -> None:
        self._rows = tuple(rows)
        self._to_arrow = to_arrow

    @overload
    def __getitem__(self, index: int) -> Row: ...

    @overload
    def __getitem__(self, index: slice) -> Rows[Row]: ...

    def __getitem__(self, index: Union[int, slice]) -> Union[Row, Rows[Row]]:
        if isinstance(index, slice):
            return Rows(self._rows[index], self._to_arrow)
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __eq__(self, other: object) -> bool:
        return self._rows == other._rows if isinstance(other, Rows) else NotImplemented

    def __repr__(self) -> str:
        return "[" + ",\n ".join(map(repr, self._rows)) + "]"

    def head(self, rows: int = 5) -> Rows[Row]:
        """The first rows."""
        return self[:rows]

    def _repr_html_(self) -> str:
        return html_table(self.head(HTML_ROWS).to_arrow(), len(self))

    def to_arrow(self) -> pyarrow.Table:
        """All rows as an Arrow table."""
        return self._to_arrow(self._rows)


def pairs(text: str, labels: Optional[Sequence[Any]] = None) -> Rows[Pair]:
    """The rows that `find` prints, whose ids are the numbers of `labels` if they are given."""
    found = [_only(Pair, row) for row in _objects(text)]
    if labels is not None:
        found = [dataclasses.replace(row, id_a=labels[int(row.id_a)], id_b=labels[int(row.id_b)]) for row in found]
    return Rows(found, _typed(_PAIR))


def neighbors(text: str) -> Rows[Neighbor]:
    """The rows that `neighbors` prints."""
    return Rows((_only(Neighbor, row) for row in _objects(text)), _typed(_NEIGHBOR))


def shown_pairs(text: str) -> Rows[ShownPair]:
    """The rows that `show` prints."""

    def shown(row: Mapping[str, Any]) -> ShownPair:
        places = (
            Passage(place["a"]["start"], place["a"]["end"], place["b"]["start"], place["b"]["end"])
            for place in row["passages"]
        )
        return _only(ShownPair, {**row, "passages": tuple(places)})

    return Rows((shown(row) for row in _objects(text)), _typed(_SHOWN))


def records(text: str) -> Rows[dict[str, Any]]:
    """The rows that `sql` prints. Each has every column; NULL is None."""
    return Rows(_objects(text), _inferred)


def _objects(text: str) -> Iterable[dict[str, Any]]:
    # `splitlines` would also divide at characters that JSON does not escape in a text, such as U+2028.
    return (json.loads(line) for line in text.split("\n") if line)


def _only(kind: Callable[..., Row], row: Mapping[str, Any]) -> Row:
    """A row with the columns of this version: a newer command may print more."""
    fields = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in row.items() if name in fields})


# The columns of the tables, so that they have their types even without rows. None is the type of ids.
_PAIR: dict[str, Optional[pyarrow.DataType]] = {
    "id_a": None,
    "id_b": None,
    "jaccard": pyarrow.float64(),
    "containment_a": pyarrow.float64(),
    "containment_b": pyarrow.float64(),
}
_NEIGHBOR: dict[str, Optional[pyarrow.DataType]] = {
    "id": None,
    "estimate": pyarrow.float64(),
    "jaccard": pyarrow.float64(),
    "containment_a": pyarrow.float64(),
    "containment_b": pyarrow.float64(),
    "shared": pyarrow.int64(),
    "shingles_a": pyarrow.int64(),
    "shingles_b": pyarrow.int64(),
    "shared_bands": pyarrow.int32(),
}
_PASSAGE = pyarrow.struct([(field.name, pyarrow.int64()) for field in dataclasses.fields(Passage)])
_SHOWN: dict[str, Optional[pyarrow.DataType]] = {
    **_PAIR,
    "text_a": pyarrow.string(),
    "text_b": pyarrow.string(),
    "passages": pyarrow.list_(_PASSAGE),
    "cluster_id": None,
    "reference_a": pyarrow.bool_(),
    "reference_b": pyarrow.bool_(),
    "passages_complete": pyarrow.bool_(),
}


def _typed(columns: Mapping[str, Optional[pyarrow.DataType]]) -> Callable[[Sequence[Any]], pyarrow.Table]:
    """The function that makes a table with these columns from rows."""

    def table(rows: Sequence[Any]) -> pyarrow.Table:
        ids = [getattr(row, name) for row in rows for name, kind in columns.items() if kind is None]
        found = pyarrow.infer_type(ids)
        id_type = pyarrow.string() if pyarrow.types.is_null(found) else found
        schema = pyarrow.schema([(name, kind or id_type) for name, kind in columns.items()])
        return pyarrow.Table.from_pylist([dataclasses.asdict(row) for row in rows], schema=schema)

    return table


def _inferred(rows: Sequence[dict[str, Any]]) -> pyarrow.Table:
    """A table whose types are those of the values."""
    names = list(rows[0]) if rows else []
    return pyarrow.table({name: [row[name] for row in rows] for name in names})
