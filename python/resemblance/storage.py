"""The location of an output, a folder or a prefix of an object store, as a file system of pyarrow."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Optional, Union

from pyarrow import fs

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def absolute(location: Union[str, os.PathLike[str]]) -> str:
    """The location, usable from any folder: a URL unchanged, or the full path of a folder."""
    text = os.fspath(location)
    return text if _SCHEME.match(text) else os.path.abspath(text)


def filesystem(location: str) -> tuple[fs.FileSystem, str]:
    """The file system that holds a location, and the path on it."""
    scheme = _SCHEME.match(location)
    if scheme is None:
        return fs.LocalFileSystem(), os.path.abspath(location)
    if scheme.group(1).lower() in ("s3", "s3a"):
        # Keys are not percent-encoded, as in the command; `from_uri` would decode them.
        return s3(os.environ), location[scheme.end() :].rstrip("/")
    found, path = fs.FileSystem.from_uri(location)
    return found, path.rstrip("/")


def s3(environment: Mapping[str, str]) -> fs.S3FileSystem:
    """S3 with the settings that the command reads from the environment.

    Credentials are found by pyarrow itself, which reads the same variables.
    """

    def variable(*names: str) -> Optional[str]:
        values = (environment.get(name, "").strip() for name in names)
        return next((value for value in values if value), None)

    scheme, _, endpoint = (variable("AWS_ENDPOINT", "AWS_ENDPOINT_URL") or "").rpartition("://")
    virtual = (variable("AWS_VIRTUAL_HOSTED_STYLE_REQUEST") or "").lower()
    return fs.S3FileSystem(
        region=variable("AWS_REGION", "AWS_DEFAULT_REGION") or "us-east-1",
        scheme="http" if scheme.lower() == "http" else "https",
        endpoint_override=endpoint.rstrip("/") or None,
        force_virtual_addressing=virtual in ("true", "1"),
    )
