"""Stands for a machine whose kernel is hostile: speaks vhost-user and FUSE to the file server itself. Prints what it got."""

import array
import errno
import mmap
import os
import select
import socket
import struct
import sys

PATH, WORKSPACE, GRANT, OUTSIDE, TURN = sys.argv[1:6]
SIZE, BASE = 64 << 20, 0x4000_0000
TABLE, AVAILABLE, USED, INPUT, OUTPUT = 0, 0x2000, 0x4000, 0x10000, 0x200000
QUEUE, LENGTH = 1, 128
FOLLOWS, WRITES, INDIRECT = 1, 2, 4
GET_FEATURES, SET_FEATURES, SET_OWNER, SET_MEMORY, SET_NUMBER, SET_ADDRESSES, SET_BASE = 1, 2, 3, 5, 8, 9, 10
SET_KICK, SET_CALL, GET_PROTOCOL, SET_PROTOCOL, ENABLE = 12, 13, 15, 16, 18

server = socket.socket(socket.AF_UNIX)
server.connect(PATH)
memory_file = os.memfd_create("memory")
os.ftruncate(memory_file, SIZE)
memory = mmap.mmap(memory_file, SIZE)
kick, answered = os.eventfd(0), os.eventfd(0)
unique, published, tried = 0, 0, 0


class Gone(Exception):
    """The server has ended, or does not answer."""


def say(request, body=b"", descriptors=(), wants=False):
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    server.sendmsg([struct.pack("=3I", request, 1, len(body)) + body], ancillary)
    if wants:
        size = struct.unpack("=3I", server.recv(12, socket.MSG_WAITALL))[2]
        return server.recv(size, socket.MSG_WAITALL)
    return None


def begin():
    say(SET_OWNER)
    offered = struct.unpack("=Q", say(GET_FEATURES, wants=True))[0]
    say(SET_FEATURES, struct.pack("=Q", offered & (1 << 32 | 1 << 30 | 1 << 28)))
    say(GET_PROTOCOL, wants=True)
    say(SET_PROTOCOL, struct.pack("=Q", 1))
    say(SET_MEMORY, struct.pack("=2I4Q", 1, 0, 0, SIZE, BASE, 0), [memory_file])
    say(SET_NUMBER, struct.pack("=2I", QUEUE, LENGTH))
    say(SET_BASE, struct.pack("=2I", QUEUE, 0))
    say(SET_ADDRESSES, struct.pack("=2I4Q", QUEUE, 0, BASE + TABLE, BASE + USED, BASE + AVAILABLE, 0))
    say(SET_CALL, struct.pack("=Q", QUEUE), [answered])
    say(SET_KICK, struct.pack("=Q", QUEUE), [kick])
    say(ENABLE, struct.pack("=2I", QUEUE, 1))


def describe(number, address, length, flags, following=0):
    memory[TABLE + 16 * number:TABLE + 16 * number + 16] = struct.pack("=QI2H", address, length, flags, following)


def publish(count=1):
    """Offers the chain that begins at descriptor 0."""
    global published
    at = AVAILABLE + 4 + 2 * (published % LENGTH)
    memory[at:at + 2] = struct.pack("=H", 0)
    published += count
    memory[AVAILABLE + 2:AVAILABLE + 4] = struct.pack("=H", published & 0xFFFF)
    os.eventfd_write(kick, 1)


def wait():
    while struct.unpack_from("=H", memory, USED + 2)[0] != published & 0xFFFF:
        ready = select.select([answered, server], [], [], 10)[0]
        if not ready or server in ready:
            raise Gone
        os.eventfd_read(answered)


def ask(opcode, node, body, room=4096, length=None):
    """Sends a request, and returns what is answered without its header; an error is one."""
    global unique
    unique += 1
    whole = 40 + len(body)
    header = struct.pack("=2I2Q3I2H", whole if length is None else length, opcode, unique, node, 0, 0, 0, 0, 0)
    memory[INPUT:INPUT + whole] = header + body
    memory[OUTPUT:OUTPUT + 16] = bytes(16)
    describe(0, INPUT, whole, FOLLOWS, 1)
    describe(1, OUTPUT, room, WRITES)
    publish()
    wait()
    size, error = struct.unpack_from("=Ii", memory, OUTPUT)
    if error:
        raise OSError(-error, os.strerror(-error))
    return memory[OUTPUT + 16:OUTPUT + max(size, 16)]


LOOKUP, FORGET, GETATTR, SETATTR, READLINK, SYMLINK, MKNOD, MKDIR, UNLINK, RMDIR, RENAME, LINK, OPEN, READ, WRITE = (
    1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16)
RELEASE, SETXATTR, GETXATTR, LISTXATTR, INIT, OPENDIR, READDIR, CREATE, BATCH, FALLOCATE, READDIRPLUS, RENAME2 = (
    18, 21, 22, 23, 26, 27, 28, 35, 42, 43, 44, 45)
ROOT = 1


def name(text):
    return (text if isinstance(text, bytes) else text.encode()) + b"\0"


def look(node, text):
    return struct.unpack_from("=Q", ask(LOOKUP, node, name(text)))[0]


def walk(path):
    node = ROOT
    for part in path.strip("/").split("/"):
        node = look(node, part)
    return node


def opened(node, flags=os.O_RDONLY):
    return struct.unpack_from("=Q", ask(OPEN, node, struct.pack("=2I", flags, 0)))[0]


def read(node, size=4096, room=1 << 16):
    handle = opened(node)
    return ask(READ, node, struct.pack("=2Q2IQ2I", handle, 0, size, 0, 0, 0, 0), room)


def write(node, text=b"evil"):
    handle = opened(node, os.O_WRONLY)
    return ask(WRITE, node, struct.pack("=2Q2IQ2I", handle, 0, len(text), 0, 0, 0, 0) + text)


def change(node, valid, mode=0, owner=0):
    """Sets what a bit of `valid` is for: 1 the mode, 6 the owner, 8 the size. Returns the mode."""
    body = struct.pack("=2I6Q8I", valid, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, mode, 0, owner, owner, 0)
    return struct.unpack_from("=I", ask(SETATTR, node, body), 16 + 60)[0]


def content(node):
    """What is in a file that nobody in the guest may read."""
    found = read(node)
    return found if b"hidden" in found or b"outside" in found else None


def attempt(what, function):
    global tried
    tried += 1
    try:
        won = function()
    except OSError:
        return
    except Gone:
        print(f"the server is gone after: {what}", flush=True)
        sys.exit()
    if won:
        print(f"BREACH {what}: {won!r}", flush=True)


def names(node):
    handle = struct.unpack_from("=Q", ask(OPENDIR, node, struct.pack("=2I", 0, 0)))[0]
    return ask(READDIR, node, struct.pack("=2Q2IQ2I", handle, 0, 1 << 16, 0, 0, 0, 0), 1 << 17)


begin()
ask(INIT, 0, struct.pack("=4I", 7, 31, 1 << 17, 0) + bytes(48))
ws = walk(WORKSPACE)
assert read(look(ws, "file")) == b"of the host\n"
assert b"granted" in read(look(walk(GRANT), "file"))
print("granted", flush=True)


def unanswered(opcode, node, body):
    """Sends a request that has no answer."""
    global unique
    unique += 1
    header = struct.pack("=2I2Q3I2H", 40 + len(body), opcode, unique, node, 0, 0, 0, 0, 0)
    memory[INPUT:INPUT + 40 + len(body)] = header + body
    describe(0, INPUT, 40 + len(body), 0)
    publish()
    wait()


def malformed():
    """What no kernel says. Each may end the server, which ends the machine."""
    for text in [b"", b"x" * 300, b"x" * 5000, b"a\0b", b"\xff" * 10]:
        yield f"look up {text[:10]!r}", lambda text=text: look(ws, text) and text
    yield "look up a name without an end", lambda: ask(LOOKUP, ws, b"file") and "found"
    for length in (0, 1, 39, 41, HUGE):
        yield f"claim to have {length} bytes", lambda length=length: ask(GETATTR, ROOT, bytes(16), length=length) and None
    for opcode in (4096, HUGE, 41):
        yield f"call {opcode}", lambda opcode=opcode: ask(opcode, ws, bytes(64)) and None
    for opcode in (LOOKUP, SETXATTR, WRITE, RENAME2, CREATE, BATCH):
        yield f"call {opcode} without its arguments", lambda opcode=opcode: ask(opcode, ws, b"") and None
    yield "forget the root", lambda: unanswered(FORGET, ROOT, struct.pack("=Q", (1 << 64) - 1))
    for count in (1, 1000, HUGE):
        yield f"forget {count}", lambda count=count: unanswered(BATCH, 0, struct.pack("=2I2Q", count, 0, ROOT, (1 << 64) - 1))
    for descriptors in CHAINS:
        yield f"offer the chain {descriptors}", lambda descriptors=descriptors: chain(*descriptors)
    yield "offer more chains than there are", lambda: publish(30000) or wait()
    yield "take the memory away", lambda: os.ftruncate(memory_file, INPUT) or os.eventfd_write(kick, 1) or ask(GETATTR, ROOT, bytes(16)) and None


HUGE = 0xFFFF_FFFF
CHAINS = [
    [(INPUT, 56, FOLLOWS, 0)], [(INPUT, 56, FOLLOWS, 60000)], [(INPUT, HUGE, 0)], [((1 << 64) - 8, 64, FOLLOWS, 1), (OUTPUT, 64, WRITES)],
    [(SIZE - 4, 4096, FOLLOWS, 1), (OUTPUT, 64, WRITES)], [(INPUT, 56, FOLLOWS, 1), (BASE, 1 << 20, WRITES)], [(INPUT, 0, FOLLOWS, 1), (OUTPUT, 0, WRITES)],
    [(OUTPUT, 64, WRITES | FOLLOWS, 1), (INPUT, 56, 0)], [(INPUT, 17, INDIRECT)], [(SIZE, 1 << 20, INDIRECT)],
]


def chain(*descriptors):
    for number, descriptor in enumerate(descriptors):
        describe(number, *descriptor)
    publish()
    wait()


if TURN != "all":
    for number, (what, function) in enumerate(malformed()):
        if number == int(TURN):
            attempt(what, function)
            attempt("look afterwards", lambda: content(look(ws, "token")))
            sys.exit()
    print("no more", flush=True)
    sys.exit()

# Ways out by names.
for path in [f"..{OUTSIDE}", f"../../../../../..{OUTSIDE}", OUTSIDE, f"usr/../..{OUTSIDE}", f"/proc/1/root{OUTSIDE}", f"proc/self/root{OUTSIDE}"]:
    for where, node in (("root", ROOT), ("workspace", ws)):
        attempt(f"look up {path} in the {where}", lambda path=path, node=node: content(look(node, path)))
for path in ["secret/key", "./secret/key", "../" + os.path.basename(WORKSPACE) + "/secret/key", "token", "secret/../token", "token/", "//token"]:
    attempt(f"read below the mask by {path}", lambda path=path: content(look(ws, path)))
for path in ["..", "../..", "../../../..", ".", "/", "./.."]:
    attempt(f"list {path} of the root", lambda path=path: b"proc" in names(look(ROOT, path)) and b"boot" in names(look(ROOT, path)))
for path in ["etc/shadow", "root", "home", "boot", "proc/self", "sys/kernel", "dev/null", "var"]:
    attempt(f"find {path}", lambda path=path: look(ROOT, path) and path)

# Links and what they lead to.
attempt("follow a link out", lambda: ask(SYMLINK, ws, name("out") + name(OUTSIDE)) and content(look(ws, "out")))
attempt("follow a link out on the way", lambda: ask(SYMLINK, ws, name("up") + name(os.path.dirname(OUTSIDE))) and content(look(ws, "up/" + os.path.basename(OUTSIDE))))
attempt("follow a link to what is masked", lambda: ask(SYMLINK, ws, name("masked") + name(f"{WORKSPACE}/token")) and content(look(ws, "masked")))
attempt("give a masked file another name", lambda: content(struct.unpack_from("=Q", ask(LINK, ws, struct.pack("=Q", look(ws, "token")) + name("linked")))[0]))
for flags in (0, 1, 2, 4):
    attempt(f"move the mask away, {flags}", lambda flags=flags: ask(RENAME2, ws, struct.pack("=Q2I", ws, flags, 0) + name("token") + name("moved")) is not None)
    attempt(f"move over the mask, {flags}", lambda flags=flags: ask(RENAME2, ws, struct.pack("=Q2I", ws, flags, 0) + name("file") + name("token")) is not None)
attempt("remove a pinned directory", lambda: ask(RENAME, ws, struct.pack("=Q", ws) + name(".git") + name("git")) is not None)
attempt("leave a whiteout", lambda: ask(RENAME2, ws, struct.pack("=Q2I", ws, 4, 0) + name("up") + name("up2")) is not None)

# Numbers that the server has not given.
for node in (0, 2, 999_999, 1 << 32, (1 << 64) - 1):
    for opcode, body in ((GETATTR, bytes(16)), (OPEN, bytes(8)), (OPENDIR, bytes(8)), (READLINK, b""), (LOOKUP, name("file")), (LISTXATTR, bytes(8))):
        if look(ws, "file") != node and ws != node:
            attempt(f"use node {node} in {opcode}", lambda opcode=opcode, node=node, body=body: node > 100_000 and ask(opcode, node, body) is not None)
for handle in (0, 7, 999, (1 << 64) - 1):
    attempt(f"read handle {handle}", lambda handle=handle: ask(READ, ws, struct.pack("=2Q2IQ2I", handle, 0, 64, 0, 0, 0, 0)))
    attempt(f"write handle {handle}", lambda handle=handle: ask(WRITE, ws, struct.pack("=2Q2IQ2I", handle, 0, 1, 0, 0, 0, 0) + b"x"))

# What is granted for reading.
for what, node in (("fixed/file", lambda: look(ws, "fixed/file")), ("the grant", lambda: look(walk(GRANT), "file")), ("a program", lambda: walk("/usr/bin/env"))):
    attempt(f"write to {what}", lambda node=node: write(node()))
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_TRUNC, os.O_RDWR | os.O_TRUNC, os.O_WRONLY | os.O_APPEND):
        attempt(f"open {what} with {flags:o}", lambda node=node, flags=flags: flags != os.O_TRUNC and opened(node(), flags) and "opened")
    attempt(f"change the mode of {what}", lambda node=node: change(node(), 1, 0o777) and "changed")
    attempt(f"truncate {what}", lambda node=node: change(node(), 8) and "changed")
attempt("make a file in the root", lambda: ask(CREATE, ROOT, struct.pack("=4I", os.O_RDWR, 0o644, 0, 0) + name("new")))
attempt("make a file among the programs", lambda: ask(CREATE, walk("/usr/bin"), struct.pack("=4I", os.O_RDWR, 0o644, 0, 0) + name("new")))

# What others would have to fear.
for kind, device in ((0o20666, 0x103), (0o60666, 0x800), (0o20666, 0)):
    attempt(f"make a device {kind:o} {device:x}", lambda kind=kind, device=device: ask(MKNOD, ws, struct.pack("=4I", kind, device, 0, 0) + name("device")))
for mode in (0o4755, 0o6755, 0o4711):
    def mode_of(answer):
        return struct.unpack_from("=I", answer, 40 + 60)[0] & 0o4000
    attempt(f"make a file of mode {mode:o}", lambda mode=mode: mode_of(ask(CREATE, ws, struct.pack("=4I", os.O_RDWR | os.O_CREAT, 0o100000 | mode, 0, 0) + name(f"set-{mode:o}"))))
    attempt(f"make a node of mode {mode:o}", lambda mode=mode: mode_of(ask(MKNOD, ws, struct.pack("=4I", 0o100000 | mode, 0, 0, 0) + name(f"node-{mode:o}"))))
    attempt(f"give the mode {mode:o}", lambda mode=mode: change(look(ws, "own"), 1, mode) & 0o4000)
for attribute in ("security.capability", "trusted.overlay.opaque", "security.ima", "system.data"):
    value = struct.pack("=5I", 0x02000001, 0xFF, 0, 0, 0)
    attempt(f"set {attribute}", lambda attribute=attribute, value=value: attribute != "security.ima" and ask(
        SETXATTR, look(ws, "file"), struct.pack("=2I", len(value), 0) + name(attribute) + value) is not None)
for owner in (0, 1, 65534):
    attempt(f"give a file to {owner}", lambda owner=owner: os.geteuid() != owner and change(look(ws, "file"), 6, 0, owner))

# Sizes, counts and calls that nobody honest has. They may do nothing, but the server goes on.
for size in (HUGE, 1 << 31, 1 << 24):
    attempt(f"read {size} bytes", lambda size=size: len(read(look(ws, "file"), size, 1 << 20)) > 100)
    attempt(f"list {size} bytes", lambda size=size: ask(READDIR, ws, struct.pack("=2Q2IQ2I", 0, 0, size, 0, 0, 0, 0), 1 << 20) and None)
    attempt(f"read an attribute of {size} bytes", lambda size=size: ask(GETXATTR, ws, struct.pack("=2I", size, 0) + name("user.x"), 1 << 20) and None)
    attempt(f"list attributes of {size} bytes", lambda size=size: ask(LISTXATTR, ws, struct.pack("=2I", size, 0), 1 << 20) and None)
    attempt(f"write {size} bytes of four", lambda size=size: ask(WRITE, look(ws, "file"), struct.pack("=2Q2IQ2I", 0, 0, size, 0, 0, 0, 0) + b"evil"))
for opcode in [*range(46, 56), 39, 40, 31, 32, 33, 34, 36, 37]:
    attempt(f"call {opcode}", lambda opcode=opcode: ask(opcode, ws, bytes(64)) and None)
assert struct.unpack_from("=Q", ask(LOOKUP, ROOT, name("usr")))[0]

ws = walk(WORKSPACE)
assert read(look(ws, "file")) == b"of the host\n"
print("still served", flush=True)


print(f"tried {tried}", flush=True)
