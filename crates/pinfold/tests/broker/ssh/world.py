"""Two git hosts on the loopback interface of namespaces that a test has just made.

world.py DIR UID GID: gives two public-looking addresses to the loopback interface, names them and
the user `git` in files of its own, starts an sshd on each, says "ready" and stays until its
standard input ends. The first sshd has DIR/host, the second DIR/other as its key.
"""

import os
import socket
import subprocess
import sys
import time

DIR, UID, GID = sys.argv[1:]
HOSTS = {"git.example.com": ("93.184.216.34", "host"), "evil.example.com": ("93.184.216.35", "other")}


def run(*command):
    subprocess.run(command, check=True)


def over(path, text):
    name = os.path.join(DIR, os.path.basename(path))
    with open(name, "w", encoding="ascii") as file:
        file.write(text)
    run("mount", "--bind", name, path)


def prepare():
    run("ip", "link", "set", "lo", "up")
    with open("/proc/sys/net/ipv4/ip_unprivileged_port_start", "w", encoding="ascii") as start:
        start.write("0")
    hosts = "127.0.0.1 localhost\n"
    for name, (address, _) in HOSTS.items():
        run("ip", "address", "add", address + "/32", "dev", "lo")
        hosts += f"{address} {name}\n"
    over("/etc/hosts", hosts)
    # Both users are the user's own: sshd run by an ordinary user logs in to that one alone.
    users = f"git:x:{UID}:{GID}::{DIR}:/bin/sh\nother:x:{UID}:{GID}::{DIR}:/bin/sh\n"
    with open("/etc/passwd", encoding="utf-8") as passwd:
        over("/etc/passwd", users + passwd.read())
    if os.geteuid() == 0:
        run("mount", "-t", "tmpfs", "none", "/run")
        os.mkdir("/run/sshd", 0o755)


def serve(address, key):
    config = f"""
ListenAddress {address}:22
HostKey {DIR}/{key}
PidFile none
UsePAM no
StrictModes no
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
AuthorizedKeysFile {DIR}/authorized
LogLevel DEBUG1
"""
    name = f"{DIR}/sshd-{key}"
    with open(name, "w", encoding="ascii") as file:
        file.write(config)
    server = subprocess.Popen(["/usr/sbin/sshd", "-D", "-f", name, "-E", name + ".log"])
    for _ in range(500):
        # sshd says to nobody when it listens.
        with socket.socket() as probe:
            if probe.connect_ex((address, 22)) == 0:
                return server
        time.sleep(0.02)
    raise SystemExit(f"sshd for {address} does not listen")


prepare()
SERVERS = [serve(*host) for host in HOSTS.values()]
print("ready", flush=True)
sys.stdin.read()
for server in SERVERS:
    server.terminate()
