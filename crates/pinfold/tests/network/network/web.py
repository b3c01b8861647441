"""Web servers that answer what their path says, and write down every request they see."""

import base64
import gzip
import hashlib
import http.server
import html
import json
import os
import re
import socket
import socketserver
import ssl
import struct
import subprocess
import threading
import time
import urllib.parse

LOCK = threading.Lock()
DIR = ""
KEPT = []


def brotli(data):
    """A brotli stream of one uncompressed meta-block (RFC 7932, 9)."""
    return struct.pack("<I", (len(data) - 1) << 4 | 1 << 20)[:3] + data + b"\x03"


CODINGS = {"gzip": gzip.compress, "br": brotli, "identity": bytes, "zstd": bytes, "deflate": bytes}


class Web(http.server.BaseHTTPRequestHandler):
    """The server on every public address."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def setup(self):
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def parse_request(self):
        # An empty line before a request means nothing (RFC 9112, 2.2).
        while self.raw_requestline in (b"\r\n", b"\n"):
            self.raw_requestline = self.rfile.readline()
        return super().parse_request()

    def read_body(self):
        self.trailers = []
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            body = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            while line := self.rfile.readline().strip():
                self.trailers.append(line.decode("latin-1"))
            return body
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def handle_any(self):
        body = self.read_body()
        seen = {
            "at": "%s:%s" % self.server.server_address[:2],
            "tls": isinstance(self.connection, ssl.SSLSocket),
            "method": self.command,
            "path": self.path,
            "headers": self.headers.items(),
            "body": body.decode("latin-1"),
            "trailers": self.trailers,
        }
        with LOCK, open(os.path.join(DIR, "seen"), "a", encoding="utf-8") as log:
            log.write(json.dumps(seen) + "\n")
        url = urllib.parse.urlsplit(self.path)
        asked = dict(urllib.parse.parse_qsl(url.query))
        if url.path.startswith("/git/"):
            return self.git(url, body)
        if url.path.startswith("/files/"):
            return self.file(url.path)
        method = getattr(self, "do_" + url.path.strip("/").replace("-", "_"), None)
        if url.path == "/ws":
            return self.websocket()
        if method:
            return method(asked, body)
        lines = [f"{name}: {value}" for name, value in self.headers.items()]
        text = "\n".join([f"{self.command} {self.path} at {seen['at']}", *lines, ""])
        return self.reply(text.encode() + body)

    do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = do_PATCH = do_PROPFIND = handle_any

    def reply(self, body, status=200, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    # Answers with what the client sent as `Authorization`, in one way or another.

    def echoed(self):
        return self.headers.get("Authorization", "").encode()

    def do_encoded(self, asked, _):
        """In this coding, one byte of the connection after the other."""
        coding = asked["as"]
        plain = b"<" + self.echoed() + b">"
        data = plain
        for one in coding.split(","):
            data = CODINGS[one.strip().lower()](data)
        self.send_response(200)
        self.send_header("Content-Encoding", coding)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if self.command == "HEAD":
            return
        for byte in data:
            self.wfile.write(b"1\r\n%c\r\n" % byte)
        self.wfile.write(b"0\r\n\r\n")

    def do_transfer(self, asked, _):
        """In a coding of the way here, not of the content (RFC 9112, 6.1 and 7)."""
        coding = asked["as"]
        data = b"<" + self.echoed() + b">"
        data = gzip.compress(data) if "gzip" in coding.lower() else data
        self.send_response(200)
        self.send_header("Transfer-Encoding", coding)
        self.send_header("Connection", "close")
        self.end_headers()
        is_chunked = coding.lower().endswith("chunked")
        self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data) if is_chunked else data)
        self.close_connection = True

    def do_base64(self, asked, _):
        coded = base64.b64encode(b"x" * int(asked["after"]) + self.echoed())
        self.reply(coded.translate(bytes.maketrans(b"+/", b"-_")) if "url" in asked else coded)

    def do_forms(self, _asked, body):
        """What the client sent as `key` of a JSON body, in the forms that servers write."""
        key = json.loads(body)["key"]
        forms = [
            body.decode(),
            json.dumps(key).replace("/", "\\/"),
            json.dumps(json.dumps(key)),
            json.dumps(key).replace("&", "\\u0026").replace("<", "\\u003C"),
            re.sub("%..", lambda code: code[0].lower(), urllib.parse.quote(key, safe="")),
            "".join(f"%{byte:02x}" for byte in key.encode()),
            html.escape(key),
            base64.b64encode(b"user:" + key.encode()).decode(),
        ]
        self.reply("\n".join(forms).encode())

    def do_empty(self, asked, _):
        self.reply(b"", Content_Encoding=asked["as"])

    def do_headers(self, _asked, _body):
        said = self.echoed().decode()
        self.reply(b"in headers\n", X_Echo=said, Location=f"https://x.invalid/?{said}")

    def do_reason(self, _asked, _body):
        self.wfile.write(b"HTTP/1.1 200 " + self.echoed() + b"\r\nContent-Length: 3\r\n\r\nok\n")

    def do_trailers(self, _asked, _body):
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Last\r\n\r\n"
        self.wfile.write(head + b"3\r\nok\n\r\n0\r\nX-Last: " + self.echoed() + b"\r\n\r\n")

    def do_wait(self, asked, _):
        """Says what another request sent."""
        self.server.waiting.wait(10)
        self.reply(self.server.received)

    def do_stream(self, _asked, _body):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"6\r\nbegun\n\r\n")
        self.server.waiting.wait(10)
        received = self.server.received
        self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(received), received))

    def do_tell(self, _asked, _body):
        self.server.received = self.echoed()
        self.server.waiting.set()
        self.reply(b"received\n")

    def do_redirect(self, asked, _):
        self.reply(b"", 302, Location=asked["to"])

    def file(self, path):
        root = os.path.join(DIR, "files")
        name = os.path.normpath(os.path.join(root, urllib.parse.unquote(path)[len("/files/") :]))
        if os.path.isdir(name):
            name = os.path.join(name, "index.html")
        if not name.startswith(root) or not os.path.isfile(name):
            return self.reply(b"", 404)
        kind = "text/html" if name.endswith(".html") else "application/octet-stream"
        with open(name, "rb") as file:
            return self.reply(file.read(), Content_Type=kind)

    def git(self, url, body):
        """git-http-backend(1), which is a CGI program (RFC 3875)."""
        variables = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": os.path.join(DIR, "git"),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
            "REMOTE_USER": "me",
            "REMOTE_ADDR": "-",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": url.path[len("/git") :],
            "QUERY_STRING": url.query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "HTTP_GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "GIVEN_TOKEN": os.environ.get("GIVEN_TOKEN", ""),
        }
        done = subprocess.run(
            ["git", "http-backend"], input=body, env=variables, capture_output=True, check=True
        )
        head, _, answer = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        status = int(headers.pop("Status", "200").split()[0])
        self.reply(answer, status, **{n.replace("-", "_"): v for n, v in headers.items()})

    # WebSocket (RFC 6455): says what it was sent, and which headers it came with.

    def websocket(self):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", accept)
        self.end_headers()
        self.close_connection = True
        offered = self.headers.get("Sec-WebSocket-Extensions", "none")
        self.frame(f"{self.headers.get('Authorization', 'nothing')} {offered}".encode())
        while True:
            first, second = self.rfile.read(2)
            mask, data = self.rfile.read(4), self.rfile.read(second & 127)
            data = bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))
            if first & 15 == 8:
                return
            self.frame(b"echo " + data)

    def frame(self, data):
        length = struct.pack("!B", len(data)) if len(data) < 126 else struct.pack("!BH", 126, len(data))
        self.wfile.write(b"\x81" + length + data)


class Internal(http.server.BaseHTTPRequestHandler):
    """What no name may lead to."""

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"INTERNAL SERVICE\n")


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True

    def __init__(self, address, handler, context=None):
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.context = context
        self.received, self.waiting = b"", threading.Event()
        super().__init__(address, handler)

    def server_bind(self):
        # HTTPServer's own asks the resolver what the address is called.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]

    def finish_request(self, request, client_address):
        # In the thread of the request: a client that says nothing must not hold up others.
        try:
            if self.context:
                request = self.context.wrap_socket(request, server_side=True)
            self.RequestHandlerClass(request, client_address, self)
            request.close()
        except (OSError, ValueError):
            pass

    def handle_error(self, *_):
        pass


def context(name="server"):
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(os.path.join(DIR, name + ".pem"), os.path.join(DIR, name + ".key"))
    tls.set_alpn_protocols(["http/1.1"])
    return tls


def background(server):
    threading.Thread(target=server.serve_forever, daemon=True).start()


def serve(directory, v4, v6):
    global DIR
    DIR = directory
    for address in v4 + (v6 if os.path.exists("/proc/net/if_inet6") else []):
        for port in (80, 8080):
            background(Server((address, port), Web))
        for port in (443, 8443):
            background(Server((address, port), Web, context()))


def serve_internal(directory, addresses):
    global DIR
    DIR = directory
    for address in addresses:
        background(Server((address, 80), Internal))
        background(Server((address, 443), Internal, context()))
    if os.path.exists("/proc/net/if_inet6"):
        background(Server(("::1", 80), Internal))
    abstract = socket.socket(socket.AF_UNIX)
    abstract.bind("\0pinfold-world")
    abstract.listen()
    KEPT.append(abstract)


def serve_faults(directory, address):
    """Servers that misbehave, each at its own port."""
    background(Server((address, 1443), Web, context("wrong")))
    background(Server((address, 2443), Web, context("expired")))
    background(Server((address, 7443), Web, context()))

    def each(port, act, tls=False):
        listener = socket.create_server((address, port))

        def loop():
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=one, args=(connection,), daemon=True).start()

        def one(connection):
            try:
                act(context().wrap_socket(connection, server_side=True) if tls else connection)
            except OSError:
                pass

        threading.Thread(target=loop, daemon=True).start()

    def reset(connection):
        connection.recv(1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    def endless(connection):
        connection.recv(100)
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        for number in range(1_000_000):
            connection.sendall(b"X-%d: %s\r\n" % (number, b"y" * 1000))

    def half(connection):
        """Reads to the end before it answers, and then ends its own side."""
        count = 0
        while data := connection.recv(4096):
            count += len(data)
        connection.sendall(b"had %d" % count)
        connection.close()

    def first(connection):
        """Ends its side at once and reads on."""
        connection.sendall(b"bye\n")
        connection.shutdown(socket.SHUT_WR)
        count = 0
        while data := connection.recv(4096):
            count += len(data)
        with LOCK, open(os.path.join(directory, "seen"), "a", encoding="utf-8") as log:
            log.write(f'{{"after_end": {count}}}\n')
        connection.close()

    def cut(connection):
        connection.recv(100)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nonly this")
        connection.close()

    each(3443, lambda connection: time.sleep(600))
    each(4443, reset)
    each(4080, reset)
    each(5080, endless)
    each(5443, endless, True)
    each(6000, half)
    each(6001, first)
    each(6080, cut)
