"""What a hostile inside would like to reach: files, processes, sockets, shared memory.

Makes it below the directory in the first argument, prints where it is, and takes it away when
its standard input ends.
"""

import ctypes
import json
import os
import socket
import sys
import threading

SECRET = "the host's secret"
LIBC = ctypes.CDLL(None, use_errno=True)


def put(base, name, content=SECRET):
    path = os.path.join(base, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(content)
    return path


def keep(base, name):
    """A file that the user may have."""
    path = os.path.join(base, name)
    return path if os.path.exists(path) else put(base, name, "")


def files(base):
    unique = os.path.basename(base)
    facts = {
        name: os.path.join(base, name) for name in ("home", "other", "ws", "readable", "writable")
    }
    home = facts["home"]
    facts |= {
        "ssh_key": put(home, ".ssh/id_ed25519"),
        "cloud_key": put(home, ".aws/credentials"),
        "home_note": put(home, "note.txt"),
        "other_file": put(base, "other/secret.txt"),
        "movable": put(base, "other/movable.txt"),
        "temp_file": put("/tmp", f"{unique}-secret"),
        "var_temp_file": put("/var/tmp", f"{unique}-secret"),
        "shm_file": put("/dev/shm", f"{unique}-secret"),
        "readable_file": put(base, "readable/file.txt"),
        "state": f"{home}/.local/state/pinfold",
        "config": f"{home}/.config/pinfold",
        "cache": f"{home}/.cache/pinfold",
        "config_file": keep(home, ".config/pinfold/config.toml"),
        "stored_secret": f"{home}/.config/pinfold/secrets/anthropic",
        "audit_log": f"{home}/.local/state/pinfold/audit.jsonl",
        "session_lock": f"{home}/.local/state/pinfold/sessions/lock",
    }
    put(base, "readable/spare")
    put(base, "writable/file.txt")
    put(base, "ws/file.txt")
    put(base, "ws/movable.txt")
    os.makedirs(facts["cache"], exist_ok=True)
    os.symlink("file.txt", f"{base}/readable/link")
    os.symlink(facts["other_file"], f"{base}/ws/link-out")
    os.symlink(facts["other"], f"{base}/ws/link-dir")
    return facts


def serve(family, kind, address):
    server = socket.socket(family, kind)
    server.bind(address)
    if kind == socket.SOCK_STREAM:
        server.listen()
        return server
    threading.Thread(target=echo, args=[server], daemon=True).start()
    return server


def echo(server):
    while True:
        data, sender = server.recvfrom(64)
        server.sendto(data, sender)


def services(base):
    abstract = f"pinfold-{os.path.basename(base)}"
    path = f"{base}/other/socket"
    held = [
        serve(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
        serve(socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0)),
        serve(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
        serve(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + abstract),
        serve(socket.AF_UNIX, socket.SOCK_STREAM, path),
    ]
    ports = [server.getsockname()[1] for server in held[:3]]
    facts = {"tcp4": ports[0], "tcp6": ports[1], "udp4": ports[2]}
    return held, facts | {"abstract": abstract, "socket_file": path}


def shared():
    key = 0x70000000 | os.getpid()
    queue = f"/pinfold-{os.getpid()}"
    create = 0o1600
    ids = (
        LIBC.shmget(key, 4096, create),
        LIBC.semget(key, 1, create),
        LIBC.msgget(key, create),
    )
    LIBC.mq_open(queue.encode(), os.O_CREAT | os.O_RDWR, 0o600, None)
    return ids, {"ipc_key": key, "mqueue": queue}


def key():
    """A key of the user's; gives what takes it away again."""
    add, control = {"x86_64": (248, 250), "aarch64": (217, 219)}[os.uname().machine]
    users_ring, revoke = ctypes.c_int(-4), 3
    name, payload = b"pinfold-victims-key", SECRET.encode()
    serial = LIBC.syscall(add, b"user", name, payload, len(payload), users_ring)
    return lambda: LIBC.syscall(control, revoke, serial)


def main(base):
    facts = files(base)
    revoke = key()
    held, found = services(base)
    facts |= found
    ids, found = shared()
    facts |= found
    facts |= {"victim": os.getpid(), "victim_marker": os.environ["PINFOLD_VICTIM"]}
    print(json.dumps(facts), flush=True)
    sys.stdin.read()
    revoke()
    for server in held:
        server.close()
    LIBC.shmctl(ids[0], 0, None)
    LIBC.semctl(ids[1], 0, 0, None)
    LIBC.msgctl(ids[2], 0, None)
    LIBC.mq_unlink(facts["mqueue"].encode())
    for name in ("temp_file", "var_temp_file", "shm_file"):
        os.unlink(facts[name])


main(sys.argv[1])
