"""Outputs on S3, on a server of the test's own."""

from __future__ import annotations

import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Iterator

import pytest

import resemblance


class Bucket(BaseHTTPRequestHandler):
    """Answers GET and HEAD for the objects `/bucket/KEY`, and lists none."""

    objects: dict[str, bytes] = {}

    def do_GET(self) -> None:
        body = self.objects.get(self.path.removeprefix("/bucket/"))
        if body is None:
            self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if wanted is None:
            self.answer(200, body)
            return
        first, last = int(wanted.group(1)), min(int(wanted.group(2)), len(body) - 1)
        self.answer(206, body[first : last + 1], f"bytes {first}-{last}/{len(body)}")

    do_HEAD = do_GET

    def answer(self, status: int, body: bytes, content_range: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Last-Modified", "Thu, 29 Feb 2024 12:00:00 GMT")
        self.send_header("ETag", '"e"')
        if content_range:
            self.send_header("Content-Range", content_range)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bytes]]:
    """The objects of a bucket, on a server to which the environment points."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Bucket)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_ENDPOINT", "AWS_SESSION_TOKEN", "AWS_PROFILE", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    Bucket.objects = {}
    yield Bucket.objects
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_output_on_s3_is_read_from_there(quickstart: resemblance.Run, bucket: dict[str, bytes]) -> None:
    folder = Path(quickstart.output)
    for path in folder.rglob("*.*"):
        # Keys are as they are written: nothing in them is decoded.
        bucket[f"a%2520b/{path.relative_to(folder).as_posix()}"] = path.read_bytes()
    output = resemblance.open("s3://bucket/a%20b/")
    assert output.counts == quickstart.counts
    assert output.pairs.to_arrow().equals(quickstart.pairs.to_arrow())
    assert output.clusters.to_arrow().num_rows == 10
    with pytest.raises(resemblance.InputError, match="s3://bucket/other holds no finished output"):
        resemblance.open("s3://bucket/other")
