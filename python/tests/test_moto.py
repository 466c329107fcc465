"""The life of an output on an independent S3 server, that of moto, on this machine alone."""

from __future__ import annotations

import urllib.request
from typing import Any, Iterator

import pytest

import resemblance

from .conftest import needs

SERVER = needs("moto.server")


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server with an empty bucket, to which the environment points."""
    server = SERVER.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        for name, value in {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
        }.items():
            monkeypatch.setenv(name, value)
        for name in ("AWS_ENDPOINT", "AWS_SESSION_TOKEN", "AWS_PROFILE", "HTTP_PROXY", "http_proxy"):
            monkeypatch.delenv(name, raising=False)
        create = urllib.request.Request(f"{endpoint}/bucket", method="PUT")
        with urllib.request.urlopen(create) as answer:
            assert answer.status == 200
        yield endpoint
    finally:
        server.stop()


def keys(endpoint: str, prefix: str) -> list[str]:
    """The objects in the bucket, as the server itself lists it."""
    with urllib.request.urlopen(f"{endpoint}/bucket?list-type=2&prefix={prefix}") as answer:
        text: str = answer.read().decode()
    return [part.split("</Key>")[0] for part in text.split("<Key>")[1:]]


def test_an_output_is_made_read_replaced_and_cleaned(endpoint: str, quickstart: resemblance.Run) -> None:
    url = "s3://bucket/deep/out"
    settings: dict[str, Any] = {"output__url": url, "output__tables": "delta"}
    run = resemblance.run("jobs/quickstart.toml", **settings)
    local = {tuple(sorted(row.items())) for row in quickstart.pairs.to_arrow().to_pylist()}
    assert {tuple(sorted(row.items())) for row in run.pairs.to_arrow().to_pylist()} == local
    files = [f"deep/out/{file}" for table in run.tables.values() for file in table.files]
    logs = [f"deep/out/{name}/_delta_log/{0:020}.json" for name in run.tables]
    assert sorted(keys(endpoint, "deep/out/")) == sorted([*files, *logs, "deep/out/manifest.json"])
    assert resemblance.run("jobs/quickstart.toml", **settings).already_finished
    # The server takes no second object of a name that is put if absent.
    again = resemblance.run("jobs/quickstart.toml", overwrite=True, **settings)
    assert not set(keys(endpoint, "deep/out/")) & set(files)
    assert f"deep/out/pairs/_delta_log/{1:020}.json" in keys(endpoint, "deep/out/pairs/")
    assert resemblance.verify(again).files == sum(len(table.files) for table in again.tables.values())
    assert resemblance.clean(again).files == 0
    assert {tuple(sorted(row.items())) for row in resemblance.open(url).pairs.to_arrow().to_pylist()} == local
    assert resemblance.sql(again, "SELECT count(*) AS n FROM pairs")[0]["n"] == len(local)


def test_delta_tables_in_the_bucket_are_read_by_deltalake(endpoint: str) -> None:
    deltalake = needs("deltalake")
    run = resemblance.run("jobs/quickstart.toml", output__url="s3://bucket/out", output__tables="delta")
    table = deltalake.DeltaTable("s3://bucket/out/pairs", storage_options={"aws_allow_http": "true"})
    assert table.version() == 0
    rows = table.to_pyarrow_table().sort_by([("id_a", "ascending"), ("id_b", "ascending")])
    assert rows.equals(run.pairs.to_arrow().sort_by([("id_a", "ascending"), ("id_b", "ascending")]).cast(rows.schema))
