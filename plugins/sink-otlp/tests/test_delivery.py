# SPDX-License-Identifier: Apache-2.0
"""How spans get there: batches, retries, collectors that are busy, broken, slow or gone, and what is said about it."""
import json
import time
import unittest

import tap
from collector import Collector, Sink, drop, hang

KEY = "secret-key-0123456789"
QUICK = ("--retry_delay=5ms",)


def span(number, run="0193d7b2-4c5a-7e11-8a01-0123456789ab"):
    return {"trajectory_id": run, "event": "completion", "timestamp": "2026-11-21T03:00:10Z", "model": "m",
            "call_id": f"{number:08x}-0000-4000-8000-000000000001", "depth": number}


class Case(unittest.TestCase):
    def collector(self, *plan):
        collector = Collector(*plan)
        self.addCleanup(collector.close)
        return collector

    def sink(self, url, *options):
        sink = Sink(f"--endpoint={url}", f"--headers=Authorization: Bearer {KEY}", *QUICK, *options)
        self.addCleanup(sink.close)
        return sink

    def fill(self, sink, numbers):
        for number in numbers:
            sink.done(span(number))

    def depths(self, collector):
        return [one["attributes"]["snipara_sandbox.depth"] for one in collector.spans]


class Works(Case):
    def test_a_request(self):
        collector = self.collector()
        sink = self.sink(collector.url, "--service_name=mine")
        self.fill(sink, range(1, 4))
        sink.done("flush")
        self.assertEqual(sink.close(), "")
        path, headers, body = collector.requests[0]
        self.assertEqual(len(collector.requests), 1)
        self.assertEqual(path, "/v1/traces")
        self.assertEqual(headers["Authorization"], f"Bearer {KEY}")
        self.assertEqual(headers["Content-Type"], "application/json")
        self.assertEqual(collector.resources, [{"service.name": "mine", "service.version": "0.0.0"}])
        self.assertEqual(self.depths(collector), [1, 2, 3])
        self.assertNotIn(KEY, body.decode())

    def test_a_flush_without_spans_asks_nobody(self):
        collector = self.collector()
        sink = self.sink(collector.url)
        sink.done("flush")
        sink.close()
        self.assertEqual(collector.requests, [])

    def test_full_batches_go_at_once_and_the_rest_at_the_end(self):
        collector = self.collector()
        sink = self.sink(collector.url, "--batch_size=10")
        self.fill(sink, range(1, 26))
        collector.wait_for(lambda seen: len(seen.spans) >= 20)
        self.assertEqual(len(collector.spans), 20)
        self.assertEqual(sink.close(), "")
        self.assertEqual(self.depths(collector), list(range(1, 26)))
        self.assertEqual(len(collector.requests), 3)

    def test_stop_and_start_again(self):
        collector = self.collector()
        sink = self.sink(collector.url)
        self.fill(sink, [1])
        sink.done("stop")
        self.assertEqual(self.depths(collector), [1])
        sink.done("start")
        self.fill(sink, [2])
        sink.close()
        self.assertEqual(self.depths(collector), [1, 2])

    def test_many_spans_in_order_and_whole(self):
        collector = self.collector()
        sink = self.sink(collector.url, "--batch_size=64", "--queue_size=65536")
        self.fill(sink, range(1, 1001))
        sink.done("flush")
        sink.close()
        self.assertEqual(self.depths(collector), list(range(1, 1001)))


class Retries(Case):
    def test_what_may_be_sent_again(self):
        for step in ((429, {}, b""), (502, {}, b"<html>"), (503, {}, b"{}"), (504, {}, b""), drop):
            with self.subTest(str(step)):
                collector = self.collector(step, step)
                sink = self.sink(collector.url)
                self.fill(sink, [1, 2])
                self.assertIn(sink.send("flush")[0], (0, -121, -104))  # EREMOTEIO, ECONNRESET: it may be told
                collector.wait_for(lambda seen: len(seen.spans) == 2)
                sink.close()
                self.assertEqual(len(collector.requests), 3)
                self.assertEqual(collector.requests[0][2], collector.requests[2][2])
                self.assertNotIn(KEY, sink.log)

    def test_what_may_not(self):
        for status in (400, 401, 403, 404, 408, 413, 415, 500, 501, 302):
            with self.subTest(status):
                collector = self.collector((status, {"Location": "http://127.0.0.1:9/"}, b'{"message": "no\\nspans"}'))
                sink = self.sink(collector.url)
                self.fill(sink, [1, 2])
                result, message, hint = sink.send("flush")
                self.assertLess(result, 0)
                self.assertIn(f"{collector.url} answers HTTP {status}: \"no spans\"", message)
                self.assertIn("2 were lost", message)
                self.assertTrue(hint or status in (400, 408), status)
                self.fill(sink, [3])
                sink.done("flush")
                self.assertIn("takes spans again; 2 spans were lost", sink.close())
                self.assertEqual(self.depths(collector), [3])
                self.assertEqual(len(collector.requests), 2)

    def test_it_waits_as_long_as_the_collector_says(self):
        times = []

        def busy(collector, handler):
            times.append(time.monotonic())
            handler.send_response(429)
            handler.send_header("Retry-After", "1")
            handler.send_header("Content-Length", "0")
            handler.end_headers()

        collector = self.collector(busy, busy)
        sink = self.sink(collector.url)
        self.fill(sink, [1])
        self.assertLess(sink.send("flush")[0], 0)
        collector.wait_for(lambda seen: len(seen.spans) == 1)
        times.append(time.monotonic())
        sink.close()
        self.assertGreaterEqual(times[1] - times[0], 0.99)
        self.assertGreaterEqual(times[2] - times[1], 0.99)

    def test_it_gives_up_after_as_many_as_configured(self):
        collector = self.collector(*[(503, {}, b"{}")] * 3)
        sink = self.sink(collector.url, "--retries=2", "--batch_size=2")
        self.fill(sink, [1, 2])
        collector.wait_for(lambda seen: len(seen.requests) == 3)
        self.fill(sink, [3, 4])
        collector.wait_for(lambda seen: len(seen.spans) == 2)
        self.assertIn("takes spans again; 2 spans were lost", sink.close())
        self.assertEqual(self.depths(collector), [3, 4])


class Trouble(Case):
    def test_nobody_listens(self):
        collector = Collector()
        collector.close()
        sink = self.sink(collector.url, "--retries=1")
        self.fill(sink, [1])
        result, message, _ = sink.send("flush")
        self.assertEqual(result, -111, message)  # ECONNREFUSED
        self.assertIn(collector.url.rpartition("/")[2], message)
        self.fill(sink, [2])
        log = sink.close()
        self.assertIn("2 spans were lost", log)
        self.assertNotIn(KEY, log + message)

    def test_it_hangs(self):
        collector = self.collector(*[hang] * 50)
        sink = self.sink(collector.url, "--timeout=300ms", "--retries=1")
        self.fill(sink, [1])
        self.assertEqual(sink.send("flush")[0], -110)  # ETIMEDOUT
        # While it is in trouble no event waits for it, and no flush: all of this is one connection's time-outs at most.
        before = len(collector.requests)
        self.fill(sink, range(2, 102))
        for _ in range(50):
            sink.send("flush")
        self.assertLess(len(collector.requests) - before, 50)
        self.assertIn("spans were lost", sink.close())

    def test_a_queue_that_is_full_drops_the_oldest_and_says_so_once(self):
        collector = self.collector(hang, (400, {}, b"{}"))
        sink = self.sink(collector.url, "--queue_size=20", "--batch_size=10", "--timeout=20s", "--retries=0")
        self.fill(sink, range(1, 11))
        collector.wait_for(lambda seen: len(seen.requests) == 1)
        self.fill(sink, range(11, 41))  # ten are on their way, twenty wait: ten are dropped
        collector.release.set()
        collector.wait_for(lambda seen: seen.requests[1:])
        collector.wait_for(lambda seen: seen.spans)
        log = sink.close()
        self.assertEqual(log.count("the oldest are dropped"), 1)
        self.assertEqual(self.depths(collector)[-10:], list(range(31, 41)))
        self.assertIn("30 spans were lost", log)  # ten each of: no answer, dropped, refused

    def test_answers_of_any_quality(self):
        for body in (b"", b"[]", b"{", b"\xff\xfe{}", b'{"partialSuccess": 5}', b'{"partialSuccess": {}}',
                     b'{"partialSuccess": {"rejectedSpans": "x"}}', b"{" * 5000, b"x" * 300000):
            collector = self.collector((200, {}, body))
            sink = self.sink(collector.url)
            self.fill(sink, [1])
            sink.done("flush")
            self.assertEqual(sink.close(), "", body[:40])
            self.assertEqual(len(collector.requests), 1)

    def test_a_collector_that_never_stops_answering(self):
        def flood(collector, handler):
            handler.send_response(500)
            handler.send_header("Content-Length", str(1 << 40))
            handler.end_headers()
            handler.close_connection = True
            try:
                while not collector.release.is_set():
                    handler.wfile.write(b"x" * 65536)
            except OSError:
                pass

        collector = self.collector(flood)
        sink = self.sink(collector.url)
        self.fill(sink, [1])
        self.assertLess(sink.send("flush")[0], 0)
        sink.close()
        self.assertEqual(len(collector.requests), 1)


class PartialSuccess(Case):
    def test_rejected_spans_are_counted_told_once_and_not_sent_again(self):
        partial = {"partialSuccess": {"rejectedSpans": "1", "errorMessage": "too\x07 old"}}
        collector = self.collector(*[(200, {}, json.dumps(partial).encode())] * 2)
        sink = self.sink(collector.url)
        for number in (1, 3):
            self.fill(sink, [number, number + 1])
            sink.done("flush")
        log = sink.close()
        self.assertEqual(len(collector.requests), 2)
        self.assertEqual(log.count('did not take 1 spans: "too  old"'), 1, log)
        self.assertIn("the export of spans ends; 2 spans were lost", log)

    def test_a_warning(self):
        collector = self.collector((200, {}, b'{"partialSuccess": {"errorMessage": "use gzip"}}'))
        sink = self.sink(collector.url)
        self.fill(sink, [1])
        sink.done("flush")
        self.assertIn('took all spans, and says: "use gzip"', sink.close())

    def test_a_collector_that_repeats_the_key_is_not_quoted(self):
        for status, body in ((200, {"partialSuccess": {"rejectedSpans": 1, "errorMessage": f"for {KEY}!"}}),
                             (401, {"message": f"who is Bearer {KEY}?"}), (503, {"message": KEY})):
            collector = self.collector((status, {}, json.dumps(body).encode()))
            sink = self.sink(collector.url, "--retries=0")
            self.fill(sink, [1])
            _, message, hint = sink.send("flush")
            self.assertNotIn(KEY, message + hint + sink.close())


class Probe(Case):
    def probe(self, *plan):
        collector = self.collector(*plan)
        sink = Sink(f"--endpoint={collector.url}", start=False)
        self.addCleanup(sink.close)
        return collector, sink.send("probe")

    def test_it_asks_with_an_empty_request(self):
        collector, (result, message, _) = self.probe()
        self.assertEqual(result, 0)
        self.assertIn("takes spans", message)
        self.assertEqual(json.loads(collector.requests[0][2]), {"resourceSpans": []})

    def test_what_is_wrong_comes_with_a_remedy(self):
        for status in (400, 401, 404, 503):
            _, (result, message, remedy) = self.probe((status, {}, b"{}"))
            self.assertLess(result, 0)
            self.assertIn(f"HTTP {status}", message)
            self.assertTrue(remedy)


tap.main(__name__)
