"""Speaks to the agent directly: what a hostile program inside would ask."""

import os
import socket
import struct


def string(data):
    return struct.pack(">I", len(data)) + data


def ask(*messages):
    """The last answer's number and content to messages on one connection."""
    with socket.socket(socket.AF_UNIX) as agent:
        agent.connect(os.environ["SSH_AUTH_SOCK"])
        for message in messages:
            agent.sendall(string(message))
            answer = b""
            while len(answer) < 4 or len(answer) < 4 + struct.unpack(">I", answer[:4])[0]:
                more = agent.recv(65536)
                if not more:
                    return None, b""
                answer += more
    return answer[4], answer[5:]


def key():
    number, content = ask(b"\x0b")
    assert (number, content[:4]) == (12, b"\0\0\0\1"), (number, content)
    length = struct.unpack(">I", content[4:8])[0]
    return content[8 : 8 + length]


def sign(data, flags=0):
    return b"\x0d" + string(KEY) + string(data) + struct.pack(">I", flags)


def document(namespace):
    return b"SSHSIG" + string(namespace) + string(b"") + string(b"sha512") + string(bytes(64))


def login(method, rest=b""):
    head = string(bytes(32)) + b"\x32" + string(b"git") + string(b"ssh-connection")
    return head + string(method) + b"\x01" + string(b"ssh-ed25519") + string(KEY) + rest


KEY = key()
FAILURE = (5, b"")
assert ask(sign(document(b"git")))[0] == 14
assert ask(sign(document(b"file"))) == FAILURE
assert ask(sign(b"any challenge")) == FAILURE
assert ask(sign(bytes(32))) == FAILURE
assert ask(sign(b"")) == FAILURE
assert ask(sign(document(b"git"), 2)) == FAILURE
assert ask(sign(login(b"publickey"))) == FAILURE
assert ask(sign(login(b"publickey-hostbound-v00@openssh.com", string(KEY)))) == FAILURE
# A binding that the sandbox made up: no host has signed it.
bind = b"\x1b" + string(b"session-bind@openssh.com") + string(KEY) + string(bytes(32))
assert ask(bind + string(string(b"ssh-ed25519") + string(bytes(64))) + b"\0") == FAILURE
# Adding, removing, locking, other extensions, nonsense.
for number in [0, 1, 9, 17, 18, 19, 20, 21, 22, 23, 25, 26, 27, 200]:
    assert ask(bytes([number]) + string(b"query")) == FAILURE, number
# What is too long ends the connection.
with socket.socket(socket.AF_UNIX) as agent:
    agent.connect(os.environ["SSH_AUTH_SOCK"])
    agent.sendall(struct.pack(">I", 256 * 1024 + 1))
    assert agent.recv(1) == b""
assert ask(sign(document(b"git") + bytes(200 * 1024))) == FAILURE
assert ask(sign(document(b"git")))[0] == 14
print("as it should be")
