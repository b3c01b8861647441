# The network: the host's services, the world, other families, and the rules of one's own.
# Nothing is sent to the world by the control: a test keeps to loopback.

import socket
import struct

# A refusal must not keep the caller waiting: seconds. A resolver or a connection that waits for an answer waits for 2 s at
# least; an emulated processor needs a tenth of a second to load what resolves names.
AT_ONCE = 0.8


def in_time(function):
    """Runs it; a refusal that comes late is no refusal but a hang. A machine that is busy with
    something else gets three tries."""
    for _ in range(3):
        started = time.monotonic()
        try:
            return function()
        except OSError as error:
            refusal, took = error, time.monotonic() - started
        if took < AT_ONCE:
            raise refusal
    raise RuntimeError(f"{refusal} after {took:.2f} s")


def reach_tcp(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as stream:
        stream.settimeout(2)
        try:
            stream.connect(address)
        except TimeoutError as error:
            raise RuntimeError("no answer in 2 s") from error
        return stream.getpeername()


@each("host services", "connect to a listener at {}", ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"],
      outside=lambda address: "works" if address in ("127.0.0.1", "::1") else "unsaid")
def listener(host, address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    port = host.tcp6 if address == "::1" else host.tcp4
    return in_time(lambda: reach_tcp(family, (address, port)))


@attempt("host services", "get an answer by UDP from 127.0.0.1")
def datagram(host):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.settimeout(1)
        sender.connect(("127.0.0.1", host.udp4))
        sender.send(b"ping")
        return sender.recv(16)


@each("host services", "connect to the {} of the host", ["abstract socket", "socket in a file"])
def unix_socket(host, what):
    address = "\0" + host.abstract if what == "abstract socket" else host.socket_file
    with socket.socket(socket.AF_UNIX) as stream:
        stream.connect(address)
        return stream.getpeername()


@attempt("host services", "list the host's abstract sockets")
def list_sockets(host):
    if host.abstract not in open("/proc/net/unix", encoding="utf-8", errors="replace").read():
        raise Refused("not listed")
    return host.abstract


@attempt("host services", "list the host's listeners")
def list_listeners(host):
    if f":{host.tcp4:04X} " not in open("/proc/net/tcp", encoding="ascii").read():
        raise Refused("not listed")
    return host.tcp4


@each("host services", "connect to a well-known socket {}", [
    "/run/docker.sock", "/var/run/docker.sock", "/run/dbus/system_bus_socket", "/run/systemd/private",
    "/run/systemd/resolve/io.systemd.Resolve", "/run/containerd/containerd.sock", "/tmp/.X11-unix/X0",
    "/run/user/1000/bus", "/run/user/1000/gnupg/S.gpg-agent", "/run/snapd.socket", "/dev/log",
    "/run/nscd/socket", "/run/podman/podman.sock",
], outside="unsaid")
def well_known(host, path):
    with socket.socket(socket.AF_UNIX) as stream:
        stream.connect(path)
        return path


@each("the world", "connect by TCP to {}", [
    ("1.1.1.1", 443), ("8.8.8.8", 53), ("10.0.0.1", 80), ("172.17.0.1", 80), ("192.168.0.1", 80),
    ("169.254.169.254", 80), ("100.100.100.200", 80), ("255.255.255.255", 80), ("224.0.0.1", 80),
    ("2606:4700:4700::1111", 443), ("fe80::1", 80), ("fd00:ec2::254", 80), ("64:ff9b::101:101", 443),
], outside="never")
def world_tcp(host, address):
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    return in_time(lambda: reach_tcp(family, address))


@each("the world", "send by UDP to {}", [
    ("1.1.1.1", 53), ("8.8.8.8", 443), ("10.0.0.1", 161), ("169.254.169.254", 80), ("224.0.0.251", 5353),
    ("255.255.255.255", 67), ("2606:4700:4700::1111", 53), ("ff02::fb", 5353),
], outside="never")
def world_udp(host, address):
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sender:
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        return in_time(lambda: sender.sendto(b"x", address))


@each("the world", "resolve {}", ["example.com", "localhost.localdomain", "metadata.google.internal"],
      outside="never")
def resolve(host, name):
    try:
        return in_time(lambda: socket.getaddrinfo(name, 80))
    except socket.gaierror as error:
        raise Refused(str(error)) from error


@attempt("the world", "find an interface besides loopback", outside="unsaid")
def interfaces(host):
    strange = [name for _, name in socket.if_nameindex() if name != "lo"]
    if not strange:
        raise Refused("only lo")
    return strange


KNOWN = {socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK}


@each("families", "make a socket of family {}", [n for n in range(0, 50) if n not in KNOWN],
      outside=lambda n: "unsaid")
def family(host, number):
    won = []
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET, socket.SOCK_RAW):
        for function in ("socket", "socketpair"):
            pair = (ctypes.c_int * 2)()
            try:
                won.append(syscall(function, number, kind, 0, pair) if function == "socketpair"
                           else syscall(function, number, kind, 0))
            except OSError as error:
                if error.errno != errno.EAFNOSUPPORT:
                    raise RuntimeError(f"{error}: the family was let through") from error
    if not won:
        raise Refused("EAFNOSUPPORT")
    return won


@each("families", "make a netlink socket of protocol {}", [n for n in range(1, 23)], outside="unsaid")
def netlink(host, number):
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, number)


@each("families", "make a {} socket", [
    ("raw IPv4", 2, 3, 1), ("raw IPv6", 10, 3, 58), ("raw IP packet", 2, 3, 255), ("ICMP", 2, 2, 1),
    ("ICMPv6", 10, 2, 58), ("packet", 17, 3, 0x300), ("vsock", 40, 1, 0),
    ("SCTP", 2, 5, 132), ("SCTP stream", 10, 1, 132), ("multipath TCP", 2, 1, 262), ("UDP-Lite", 2, 2, 136), ("UDP-Lite over IPv6", 10, 2, 136),
    ("DCCP", 2, 6, 33), ("L2TP", 2, 2, 115), ("SMC", 2, 1, 256),
], outside="unsaid")
def special(host, item):
    return syscall("socket", item[1], item[2], item[3])


def netlink_request(kind, payload, flags=0x5):
    message = struct.pack("=IHHII", 16 + len(payload), kind, flags, 1, 0) + payload
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as route:
        route.bind((0, 0))
        route.send(message)
        code = struct.unpack_from("=i", route.recv(4096), 16)[0]
    if code:
        raise OSError(-code, "netlink")
    return True


@each("own network", "change it by netlink: {}", [
    ("take loopback down", 16, struct.pack("=BxHiII", 0, 0, 1, 0, 1)),
    ("make an interface", 16, struct.pack("=BxHiII", 0, 0, 0, 0, 0)
     + struct.pack("=HH", 16, 18) + struct.pack("=HH", 9, 1) + b"dummy\0\0\0"),
    ("add an address", 20, struct.pack("=BBBBI", 2, 8, 0, 0, 1) + struct.pack("=HH", 8, 2) + b"\x0a\0\0\1"),
    ("add a route", 24, struct.pack("=BBBBBBBBI", 2, 0, 0, 0, 254, 3, 0, 1, 0)
     + struct.pack("=HHI", 8, 4, 1)),
    ("add a rule", 32, struct.pack("=BBBBBBBBI", 2, 0, 0, 0, 254, 3, 0, 1, 0)),
    ("add a neighbour", 28, struct.pack("=BxxxiHBB", 2, 1, 0x80, 0, 1)),
], outside="never")
def change_network(host, item):
    return netlink_request(item[1], item[2], 0x605)


@each("own network", "set a socket's {}", [
    ("mark", 1, 36, 1), ("transparency", 0, 19, 1), ("device", 1, 25, None), ("priority", 1, 12, 7),
    ("forced buffer", 1, 32, 1 << 24), ("debugging", 1, 1, 1),
], outside="unsaid")
def option(host, item):
    with socket.socket() as stream:
        if item[3] is None:
            stream.setsockopt(item[1], item[2], b"eth0\0")
        else:
            stream.setsockopt(item[1], item[2], item[3])
        return True


@each("own network", "listen on port {}", [1, 22, 53, 80, 443, 880, 1023], outside="never")
def bind(host, port):
    with socket.socket() as stream:
        stream.bind(("127.0.0.1", port))
        return stream.getsockname()


@attempt("own network", "take loopback down by ioctl", outside="never")
def ioctl(host):
    import fcntl
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, 0x8914, struct.pack("16sH22x", b"lo", 0))
    return True
