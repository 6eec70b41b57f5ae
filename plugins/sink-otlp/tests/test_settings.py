# SPDX-License-Identifier: Apache-2.0
"""Options, and OpenTelemetry's own variables: which counts, and what is refused."""
import unittest

import tap
from collector import Collector, Sink

EVENT = {"trajectory_id": "a", "event": "run_ended", "timestamp": "2026-11-21T03:00:10Z", "end": "ok"}
KEY = "secret-key-0123456789"


class Settings(unittest.TestCase):
    def setUp(self):
        self.collector = Collector()
        self.addCleanup(self.collector.close)

    def request(self, *options):
        sink = Sink(*options)
        self.addCleanup(sink.close)
        self.assertEqual(sink.opened[0], 0, sink.opened)
        sink.done(EVENT)
        sink.done("flush")
        sink.close()
        return self.collector.requests.pop()

    def refused(self, *options, says):
        sink = Sink(*options)
        self.addCleanup(sink.close)
        result, message, hint = sink.opened
        self.assertEqual(result, -22, message)
        self.assertIn(says, message)
        self.assertTrue(hint)
        self.assertNotIn(KEY, message + hint + sink.close())

    def test_endpoints(self):
        url = self.collector.url
        for options, path in (
                ([f"--endpoint={url}"], "/v1/traces"), ([f"--endpoint={url}/"], "/v1/traces"),
                ([f"--endpoint={url}/api/otel"], "/api/otel/v1/traces"),
                ([f"--endpoint={url}/v1/traces"], "/v1/traces"),
                ([f"$OTEL_EXPORTER_OTLP_ENDPOINT={url}/base/"], "/base/v1/traces"),
                ([f"$OTEL_EXPORTER_OTLP_TRACES_ENDPOINT={url}/exact?a=b"], "/exact?a=b"),
                ([f"$OTEL_EXPORTER_OTLP_TRACES_ENDPOINT={url}/t",
                  "$OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1"], "/t"),
                ([f"--endpoint={url}/o", "$OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://127.0.0.1:1"], "/o/v1/traces")):
            with self.subTest(options):
                self.assertEqual(self.request(*options)[0], path)

    def test_endpoints_that_are_none(self):
        for endpoint in ("collector:4318", "ftp://host", "http://", f"http://user:{KEY}@host", "http://a b/",
                         "http://host/\x01", "http://host/?q", "http://" + "h" * 5000):
            self.refused(f"--endpoint={endpoint}", says="endpoint")
        self.refused("$OTEL_EXPORTER_OTLP_ENDPOINT=nowhere", says="OTEL_EXPORTER_OTLP_ENDPOINT")

    def test_headers(self):
        url = f"--endpoint={self.collector.url}"
        for options, expected in (
                (["--headers=X-Key: one", "--headers=X-Other=two"], {"X-Key": "one", "X-Other": "two"}),
                (["$OTEL_EXPORTER_OTLP_HEADERS=x-key=a%20b%2Cc , x-other = d%"], {"x-key": "a b,c", "x-other": "d%"}),
                (["$OTEL_EXPORTER_OTLP_TRACES_HEADERS=a=1,,", "$OTEL_EXPORTER_OTLP_HEADERS=b=2"],
                 {"a": "1", "b": None}),
                (["--headers=a: 1", "$OTEL_EXPORTER_OTLP_HEADERS=b=2"], {"a": "1", "b": None})):
            with self.subTest(options):
                headers = self.request(url, *options)[1]
                self.assertEqual({name: headers.get(name) for name in expected}, expected)

    def test_headers_that_are_none(self):
        for header in (KEY, f": {KEY}", f"a b: {KEY}", f"a: {KEY}\r\nb: c", f"Content-Type: {KEY}", f"host={KEY}",
                       "a: " + KEY * 1000):
            self.refused(f"--headers={header}", says="header 1 of `headers`")
        self.refused(f"$OTEL_EXPORTER_OTLP_HEADERS=a=b,{KEY}", says="header 2 of OTEL_EXPORTER_OTLP_HEADERS")
        self.refused(f"$OTEL_EXPORTER_OTLP_HEADERS=a={KEY}%0d%0ab", says="control character")

    def test_the_resource(self):
        url = f"--endpoint={self.collector.url}"
        for options, expected in (
                ([], {"service.name": "snipara-sandbox"}),
                (["$OTEL_SERVICE_NAME=of-variable"], {"service.name": "of-variable"}),
                (["$OTEL_RESOURCE_ATTRIBUTES=service.name=third,team=a%20b"], {"service.name": "third", "team": "a b"}),
                (["$OTEL_SERVICE_NAME=second", "$OTEL_RESOURCE_ATTRIBUTES=service.name=third"],
                 {"service.name": "second"}),
                (["--service_name=first", "$OTEL_SERVICE_NAME=second"], {"service.name": "first"}),
                (["--resource_attributes=deployment.environment.name=test", "$OTEL_RESOURCE_ATTRIBUTES=k=v"],
                 {"service.name": "snipara-sandbox", "deployment.environment.name": "test", "k": "v"})):
            with self.subTest(options):
                self.request(url, *options)
                self.assertEqual(self.collector.resources.pop(), {**expected, "service.version": "0.0.0"})

    def test_a_resource_that_is_none(self):
        self.refused("--resource_attributes=novalue", says="attribute 1 of `resource_attributes`")
        self.refused("$OTEL_RESOURCE_ATTRIBUTES=a=b,c", says="attribute 2 of OTEL_RESOURCE_ATTRIBUTES")
        self.refused("$OTEL_RESOURCE_ATTRIBUTES=a=%ff", says="OTEL_RESOURCE_ATTRIBUTES")


tap.main(__name__)
