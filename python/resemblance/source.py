"""The place of a source that was moved since its job ran."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Optional, Union

#: A path or URL, or one for each URL of the source.
Places = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]]]


def source_options(places: Optional[Places]) -> list[str]:
    """The options of a command that name the new places of a source."""
    if places is None:
        return []
    all_places = [places] if isinstance(places, (str, os.PathLike)) else places
    return [f"--source={os.fspath(place)}" for place in all_places]
