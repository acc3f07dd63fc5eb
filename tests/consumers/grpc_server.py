#!/usr/bin/env python3
"""A gRPC server with unary and server-streaming methods, which needs no .proto file.

    grpc_server.py PORT LOG

Writes a line of JSON for each call to LOG: what came, and the times of the messages that it sent, ns by its own clock.
"""

import concurrent.futures
import json
import sys
import threading
import time

import grpc


class Calls:
    """The methods; requests and responses are bytes."""

    def __init__(self, log):
        self.log, self.lock = log, threading.Lock()

    def note(self, method, request, context, **more):
        line = {"method": method, "body": request.decode(), "left_s": context.time_remaining(), **more}
        with self.lock:
            print(json.dumps(line), file=self.log, flush=True)

    def echo(self, request, context):
        self.note("Echo", request, context)
        return request

    def count(self, request, context):
        """Send as many messages as the request says, each so many milliseconds after the one before: `8` or `8@5`."""
        count, _, gap = request.decode().partition("@")
        times = []
        for number in range(int(count)):
            if number:
                time.sleep(float(gap or 1) / 1e3)
            times.append(time.monotonic_ns())
            yield b"message %d" % number
        self.note("Count", request, context, messages=len(times), times=times)

    def fail(self, request, context):
        status = next(code for code in grpc.StatusCode if code.value[0] == int(request))
        self.note("Fail", request, context, status=int(request))
        context.abort(status, f"status {int(request)}: 100 % café")

    def wait(self, request, context):
        """Send nothing before the client has left."""
        has_ended = threading.Event()
        context.add_callback(has_ended.set)
        self.note("Wait", request, context)
        has_ended.wait(10)
        return b""


def main():
    port, path = sys.argv[1:]
    with open(path, "w") as log, concurrent.futures.ThreadPoolExecutor(16) as threads:
        calls = Calls(log)
        unary, stream = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
        methods = {"Echo": unary(calls.echo), "Count": stream(calls.count), "Fail": unary(calls.fail), "Wait": unary(calls.wait)}
        server = grpc.server(threads)
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("test.Test", methods)])
        server.add_insecure_port(f"127.0.0.1:{port}")
        server.start()
        server.wait_for_termination()


main()
