"""The bounds of `[alarms]`, and whether a run exceeds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Alarm:
    """A bound of `[alarms]`, and what the output of a run has."""

    #: Its key, such as `removed_share`.
    bound: str
    #: The value of the key.
    allowed: float
    #: The greatest value of any group, or that of all documents together.
    found: float
    #: A sentence for each group that exceeds the bound; empty if none does.
    alarms: tuple[str, ...]

    @property
    def is_raised(self) -> bool:
        """Whether the bound is exceeded, so that a person should look at the output."""
        return bool(self.alarms)

    @classmethod
    def of_record(cls, record: dict[str, Any]) -> Alarm:
        """An alarm in the JSON object of the command."""
        return cls(record["bound"], record["allowed"], record["found"], tuple(record["alarms"]))
