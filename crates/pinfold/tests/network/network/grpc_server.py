"""A gRPC server whose messages are bytes, and which writes down the token that came."""

import os
import sys
from concurrent import futures

import grpc

DIR, ADDRESS = sys.argv[1:]


def token(context):
    said = dict(context.invocation_metadata()).get("authorization", "none")
    with open(os.path.join(DIR, "seen"), "a", encoding="utf-8") as log:
        log.write(said + "\n")
    return said


def echo(request, context):
    context.send_initial_metadata((("x-first", token(context)),))
    context.set_trailing_metadata((("x-last", "end"),))
    return request


def talk(requests, context):
    for request in requests:
        yield b"heard " + request


def count(request, context):
    for number in range(int(request)):
        yield b"%d" % number * 1000


def fail(request, context):
    context.abort(grpc.StatusCode.NOT_FOUND, "no such thing")


def main():
    server = grpc.server(futures.ThreadPoolExecutor(8))
    methods = {
        "Echo": grpc.unary_unary_rpc_method_handler(echo),
        "Talk": grpc.stream_stream_rpc_method_handler(talk),
        "Count": grpc.unary_stream_rpc_method_handler(count),
        "Fail": grpc.unary_unary_rpc_method_handler(fail),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Service", methods),))
    files = [os.path.join(DIR, "server." + kind) for kind in ("key", "pem")]
    pair = tuple(open(file, "rb").read() for file in files)
    server.add_secure_port(f"{ADDRESS}:443", grpc.ssl_server_credentials([pair]))
    server.start()
    server.wait_for_termination()


main()
