"""Messages of OTLP, in protobuf and in JSON, are read by those that the OpenTelemetry project publishes, and pass through a collector."""

from __future__ import annotations

import base64
import gzip
import json
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import resemblance

from .conftest import REPOSITORY, Collector, needs

JSON_FORMAT = needs("google.protobuf.json_format")
TRACES = needs("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
METRICS = needs("opentelemetry.proto.collector.metrics.v1.metrics_service_pb2")
QUICKSTART = REPOSITORY / "jobs" / "quickstart.toml"


@pytest.fixture(autouse=True)
def exported(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment points to the collector."""
    for name in ("TRACEPARENT", "OTEL_SDK_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)


def with_hexadecimal_ids(body: Any) -> Any:
    """The JSON of OTLP writes ids in hexadecimal, where that of protobuf has base64."""
    if isinstance(body, dict):
        ids = ("traceId", "spanId", "parentSpanId")
        return {
            key: base64.b64encode(bytes.fromhex(value)).decode() if key in ids else with_hexadecimal_ids(value)
            for key, value in body.items()
        }
    return [with_hexadecimal_ids(value) for value in body] if isinstance(body, list) else body


def parsed(collector: Collector, path: str, message: Any) -> Any:
    """The one message that was sent to a path. No field is unknown to the published schema."""
    [(content_type, body)] = [(kind, body) for at, kind, body in collector.sent if at == path]
    if content_type == "application/json":
        return JSON_FORMAT.ParseDict(with_hexadecimal_ids(json.loads(body)), message)
    assert content_type == "application/x-protobuf"
    message.ParseFromString(body)
    known = type(message)()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    assert known == message and known.ByteSize() == len(body)
    return message


@pytest.mark.parametrize("protocol", ["http/protobuf", "http/json"])
def test_spans_and_metrics_are_read(
    collector: Collector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
    run = resemblance.run(QUICKSTART, output__url=tmp_path / "out", progress=False)

    traces = parsed(collector, "/v1/traces", TRACES.ExportTraceServiceRequest())
    [resource_spans] = traces.resource_spans
    resource = {pair.key: pair.value.string_value for pair in resource_spans.resource.attributes}
    assert resource["service.name"] == "resemblance"
    spans = {span.name: span for span in resource_spans.scope_spans[0].spans}
    command = spans["resemblance run"]
    attributes = {pair.key: pair.value for pair in command.attributes}
    assert attributes["resemblance.pairs"].int_value == run.counts["pairs"]
    assert attributes["resemblance.output.url"].string_value.endswith("out")
    assert attributes["resemblance.input.urls"].array_value.values[0].string_value
    assert attributes["resemblance.already_finished"].WhichOneof("value") == "bool_value"
    for span in spans.values():
        assert len(span.trace_id) == 16 and len(span.span_id) == 8
        assert command.start_time_unix_nano <= span.start_time_unix_nano < span.end_time_unix_nano
        assert span is command or span.parent_span_id == command.span_id
        assert span.end_time_unix_nano <= command.end_time_unix_nano

    metrics = parsed(collector, "/v1/metrics", METRICS.ExportMetricsServiceRequest())
    gauges = {metric.name: metric for metric in metrics.resource_metrics[0].scope_metrics[0].metrics}
    [point] = gauges["resemblance_pairs"].gauge.data_points
    assert point.as_double == run.counts["pairs"]
    assert {pair.key: pair.value.string_value for pair in point.attributes} == {"name": "quickstart"}
    assert gauges["resemblance_input_bytes"].unit == "By"


def test_a_failed_run_has_the_status_of_an_error(collector: Collector, tmp_path: Path) -> None:
    with pytest.raises(resemblance.InputError):
        resemblance.run(QUICKSTART, output__url=tmp_path / "out", source__url=tmp_path / "none", progress=False)
    traces = parsed(collector, "/v1/traces", TRACES.ExportTraceServiceRequest())
    [span] = traces.resource_spans[0].scope_spans[0].spans
    assert span.status.code == span.status.STATUS_CODE_ERROR
    assert "none" in span.status.message


#: Seconds that the collector may take to start, or to send what it has and end.
PATIENCE = 60


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def rotel(to: str, folder: Path) -> Iterator[str]:
    """Rotel, a collector of OpenTelemetry, at the URL that is yielded. It forwards what it receives to the URL `to`, at the latest when it
    ends."""
    program = Path(needs("rotel").__file__).with_name("rotel-agent")
    ports = [free_port(), free_port()]
    command = [str(program), "start", "--pid-file", str(folder / "rotel.pid")]
    command += ["--otlp-http-endpoint", f"127.0.0.1:{ports[0]}", "--otlp-grpc-endpoint", f"127.0.0.1:{ports[1]}"]
    command += ["--exporter", "otlp", "--otlp-exporter-protocol", "http", "--otlp-exporter-endpoint", to]
    command += ["--batch-timeout", "100ms"]
    with (folder / "rotel.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as agent:
        try:
            until = time.monotonic() + PATIENCE
            while True:
                assert agent.poll() is None, (folder / "rotel.log").read_text()
                try:
                    socket.create_connection(("127.0.0.1", ports[0]), timeout=1).close()
                    break
                except OSError:
                    assert time.monotonic() < until, "the collector does not listen"
                    time.sleep(0.05)
            yield f"http://127.0.0.1:{ports[0]}"
        finally:
            agent.terminate()
            try:
                agent.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                agent.kill()


@pytest.mark.parametrize("protocol", ["http/protobuf", "http/json"])
def test_a_collector_forwards_what_it_receives(
    collector: Collector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
    with rotel(collector.url, tmp_path) as url:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        run = resemblance.run(QUICKSTART, output__url=tmp_path / "out", progress=False)

    def forwarded(path: str, message: Any) -> list[Any]:
        return [message.FromString(gzip.decompress(body)) for at, _, body in collector.sent if at == path]

    spans = {
        span.name: span
        for request in forwarded("/v1/traces", TRACES.ExportTraceServiceRequest)
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    }
    command = spans.pop("resemblance run")
    attributes = {pair.key: pair.value for pair in command.attributes}
    assert attributes["resemblance.pairs"].int_value == run.counts["pairs"]
    assert {"sketches", "candidates", "scores", "pairs", "clusters"} <= spans.keys()
    assert {span.parent_span_id for span in spans.values()} == {command.span_id}

    gauges = {
        metric.name: metric.gauge.data_points[0].as_double
        for request in forwarded("/v1/metrics", METRICS.ExportMetricsServiceRequest)
        for resource in request.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    assert gauges["resemblance_pairs"] == run.counts["pairs"]
