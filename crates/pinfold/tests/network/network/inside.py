import os
import socket
import ssl
import struct
import time

PROXY = ("127.0.0.1", 881)


def connect(to, timeout=5):
    """A connection as programs make it: the name is looked up, the address connected to."""
    return socket.create_connection(to, timeout)


def tunnel(to, timeout=5, extra=""):
    """The answer of the proxy to CONNECT, and the connection."""
    s = socket.create_connection(PROXY, timeout)
    s.sendall(f"CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n{extra}\r\n".encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = s.recv(1)
        if not byte:
            break
        head += byte
    return head.decode("latin-1"), s


def read(s):
    """Everything until the end, or how it ended."""
    data = b""
    try:
        while more := s.recv(65536):
            data += more
    except ConnectionResetError:
        data += b"<reset>"
    except socket.timeout:
        data += b"<silence>"
    return data.decode("latin-1")


def speak(s, text):
    """Says something, and returns what comes back."""
    try:
        s.sendall(text if isinstance(text, bytes) else text.encode("latin-1"))
    except ConnectionError:
        return "<reset>"
    return read(s)


def status(answer):
    """The status code, or how it ended without one."""
    return answer.split(" ")[1] if answer.startswith("HTTP/") else (answer or "<end>")


def tls(s, name, alpn=("http/1.1",)):
    context = ssl.create_default_context()
    context.set_alpn_protocols(list(alpn))
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(s, server_hostname=name)


def attempt(act):
    """What an attempt gives, or the error's name."""
    try:
        return act()
    except OSError as error:
        return type(error).__name__


def timed(name, act):
    """Prints what an attempt gives, and whether it came at once."""
    began = time.monotonic()
    said = attempt(act)
    took = time.monotonic() - began
    print(name, said, "at once" if took < 2 else f"after {took:.1f} s", flush=True)


def websocket(s, host, extra=""):
    """Begins a WebSocket (RFC 6455): the head of the answer."""
    s.sendall(
        f"GET /ws HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n{extra}\r\n".encode()
    )
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += s.recv(1)
    return head.decode("latin-1")


def frame(s, text=None):
    """Says something in a frame, if there is something, and reads one."""
    if text is not None:
        mask = os.urandom(4)
        data = bytes(byte ^ mask[at % 4] for at, byte in enumerate(text.encode()))
        s.sendall(struct.pack("!BB", 0x81, 0x80 | len(data)) + mask + data)
    file = s.makefile("rb", 0)
    length = file.read(2)[1]
    if length == 126:
        length = struct.unpack("!H", file.read(2))[0]
    data = b""
    while len(data) < length:
        data += file.read(length - len(data))
    return data.decode()
