"""A small internet on the loopback interface of namespaces that a test has just made.

world.py DIR UID GID SERVER...: gives public-looking addresses to the loopback interface, puts the
test's own resolver and trusted certificates in the places of the system's, becomes that user,
starts the servers, says "ready" and stays until its standard input ends.
"""

import os
import socket
import struct
import subprocess
import sys
import threading

import github
import web

DIR, UID, GID = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
SERVERS = sys.argv[4:]

# What each name leads to. Everything below "below.example.org" leads to one host.
NAMES = {
    "web.example.com": ["93.184.216.34"],
    "deep.web.example.com": ["93.184.216.34"],
    "other.example.org": ["93.184.216.35"],
    # One server for many names, as content networks have it.
    "raw.githubusercontent.com": ["93.184.216.35"],
    "gist.githubusercontent.com": ["93.184.216.35"],
    "git.example.org": ["93.184.216.36"],
    "db.example.org": ["93.184.216.37"],
    "registry.example.org": ["93.184.216.38"],
    "h2.example.com": ["93.184.216.39"],
    "faults.example.com": ["93.184.216.40"],
    "github.com": ["93.184.216.41"],
    "api.github.com": ["93.184.216.42"],
    "grpc.example.com": ["93.184.216.44"],
    "proxy.example.net": ["93.184.216.43"],
    "loopback.example.net": ["127.0.0.1"],
    "metadata.example.net": ["169.254.169.254"],
    "private.example.net": ["10.1.2.3"],
    "six.example.net": ["::1"],
    "mapped.example.net": ["::ffff:127.0.0.1"],
    "nat64.example.net": ["64:ff9b::7f00:1"],
    "mixed.example.net": ["127.0.0.1", "93.184.216.34"],
    "own.example.net": ["185.199.108.9"],
    "own6.example.net": ["2606:2800:220:9::1"],
    "forwarded.example.net": ["185.199.109.9"],
}
INTERNAL = ["169.254.169.254", "10.1.2.3"]
PUBLIC_V6 = "2606:2800:220:1::34"


def run(*command, **options):
    subprocess.run(command, **{"check": True, **options})


def ip(commands, *options):
    """Runs commands of ip(8) in one process. With "-force" it goes on after one that fails."""
    run("ip", *options, "-batch", "-", input="\n".join(commands), text=True, check=not options)


def prepare():
    v4 = {a for addresses in NAMES.values() for a in addresses if a.startswith("93.")}
    commands = ["link set lo up"]
    commands += [f"address add {address}/32 dev lo" for address in sorted(v4) + INTERNAL]
    if os.path.exists("/proc/net/if_inet6"):
        commands.append(f"address add {PUBLIC_V6}/128 dev lo nodad")
    ip(commands)
    # Another interface, as a machine's own on the internet. Not every kernel has this kind.
    own = [a for name in ("own.example.net", "own6.example.net") for a in NAMES[name]]
    ip(
        [
            "link add own type veth peer name other",
            *(f"address add {address} dev own nodad" for address in own),
            "link set own up",
            "link set other up",
            # A load balancer's address, for which no interface has one.
            *(f"route add local {a}/32 dev own" for a in NAMES["forwarded.example.net"]),
        ],
        "-force",
    )
    with open("/proc/sys/net/ipv4/ip_unprivileged_port_start", "w", encoding="ascii") as start:
        start.write("0")
    for name, over in [
        ("resolv.conf", "/etc/resolv.conf"),
        ("hosts", "/etc/hosts"),
        ("bundle.pem", "/etc/ssl/certs/ca-certificates.crt"),
    ]:
        run("mount", "--bind", os.path.join(DIR, name), os.path.realpath(over))
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(GID)
        os.setuid(UID)


def answer(question):
    """Answers a DNS question, and writes down what was asked."""
    at, labels = 12, []
    while question[at]:
        labels.append(question[at + 1 : at + 1 + question[at]].decode("latin-1"))
        at += question[at] + 1
    kind = struct.unpack("!H", question[at + 1 : at + 3])[0]
    name = ".".join(labels).lower()
    with open(os.path.join(DIR, "asked"), "a", encoding="utf-8") as asked:
        asked.write(f"{name} {kind}\n")
    known = NAMES.get(name)
    if name.endswith(".below.example.org"):
        known = ["93.184.216.34"]
    records = b""
    count = 0
    for address in known or []:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        if kind == (28 if ":" in address else 1):
            data = socket.inet_pton(family, address)
            records += b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 30, len(data)) + data
            count += 1
    flags = 0x8180 if known else 0x8183
    header = question[:2] + struct.pack("!HHHHH", flags, 1, count, 0, 0)
    return header + question[12 : at + 5] + records


def serve_names():
    names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    names.bind(("127.0.0.1", 53))

    def loop():
        while True:
            question, asker = names.recvfrom(2048)
            names.sendto(answer(question), asker)

    threading.Thread(target=loop, daemon=True).start()


CHILDREN = []


def child(*command, **options):
    CHILDREN.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, **options))


def await_port(address, port):
    """Waits until a server that was just started listens."""
    while True:
        with socket.socket() as probe:
            if probe.connect_ex((address, port)) == 0:
                return
        if CHILDREN[-1].poll() is not None:
            sys.exit(f"the server for {address}:{port} ended")
        threading.Event().wait(0.02)


def start(server):
    log = open(os.path.join(DIR, f"{server}.log"), "wb")
    if server == "web":
        web.serve(DIR, ["93.184.216.34", "93.184.216.35"], [PUBLIC_V6])
        web.serve_faults(DIR, "93.184.216.40")
    elif server == "internal":
        web.serve_internal(DIR, ["127.0.0.1", *INTERNAL])
    elif server == "registry":
        web.serve(DIR, [NAMES["registry.example.org"][0], NAMES["git.example.org"][0]], [])
    elif server == "github":
        github.serve(DIR, [NAMES["github.com"][0], NAMES["api.github.com"][0]])
    elif server == "elsewhere":
        # Not GitHub's, and asked for as if it were.
        github.serve(DIR, [NAMES["other.example.org"][0]])
    elif server == "grpc":
        # The system's Python, for which the package is made.
        child("/usr/bin/python3", os.path.join(DIR, "grpc_server.py"), DIR,
              NAMES["grpc.example.com"][0], stdout=log, stderr=log)
        await_port(NAMES["grpc.example.com"][0], 443)
    elif server == "squid":
        start_squid(log)
    elif server == "h2":
        script = os.path.join(os.path.dirname(__file__), "h2.mjs")
        address = NAMES["h2.example.com"][0]
        child("node", script, DIR, address, stdout=log, stderr=log)
        await_port(address, 443)
        await_port(address, 8080)
    elif server == "sshd":
        child("/usr/sbin/sshd", "-D", "-e", "-f", os.path.join(DIR, "sshd_config"), stderr=log)
        await_port(NAMES["git.example.org"][0], 22)
    elif server == "postgres":
        start_postgres(log)
    else:
        sys.exit(f"no such server: {server}")


def start_squid(log):
    """As a company has it: tunnels to port 443 alone, names that only it knows. squid does not run
    as root."""
    address = NAMES["proxy.example.net"][0]
    who = {"user": 65534, "group": 65534} if os.getuid() == 0 else {}
    # By its name it tells its shared memory from that of others.
    child("/usr/sbin/squid", "-N", "-n", f"t{os.getpid()}", "-f", os.path.join(DIR, "squid.conf"), stdout=log, stderr=log,
          cwd="/tmp", **who)
    await_port(address, 3128)


def start_postgres(log):
    """PostgreSQL does not run as root."""
    who = {"user": 65534, "group": 65534} if os.getuid() == 0 else {}
    data = os.path.join(DIR, "pg")
    os.mkdir(data, 0o700)
    for name in ("server.pem", "server.key"):
        with open(os.path.join(DIR, name), "rb") as source:
            with open(os.path.join(data, name), "wb") as copy:
                os.chmod(copy.name, 0o600)
                copy.write(source.read())
    if who:
        for path in (data, os.path.join(data, "server.pem"), os.path.join(data, "server.key")):
            os.chown(path, 65534, 65534)
    bin_dir = os.environ["POSTGRES"]
    cluster = os.path.join(data, "cluster")
    run(f"{bin_dir}/initdb", "-D", cluster, "-U", "me", "-A", "trust", "--no-sync",
        stdout=log, stderr=log, cwd=data, **who)
    with open(os.path.join(cluster, "pg_hba.conf"), "a", encoding="ascii") as rules:
        rules.write("hostssl all all all trust\n")
    address = NAMES["db.example.org"][0]
    child(f"{bin_dir}/postgres", "-D", cluster, "-h", address, "-k", data, "-c", "ssl=on",
          "-c", f"ssl_cert_file={data}/server.pem", "-c", f"ssl_key_file={data}/server.key",
          "-c", "fsync=off", stdout=log, stderr=log, cwd=data, **who)
    await_port(address, 5432)


def main():
    prepare()
    serve_names()
    for server in SERVERS:
        start(server)
    print("ready", flush=True)
    sys.stdin.read()
    for one in CHILDREN:
        one.terminate()
        one.wait()
    os._exit(0)


main()
