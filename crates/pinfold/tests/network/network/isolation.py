V6 = "2606:2800:220:1::34"
has_v6 = os.path.exists("/proc/net/if_inet6")


def get(address, port=80, family=None):
    def act():
        answer = speak(connect((address, port)), f"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        return "SERVED" if "INTERNAL" in answer or " 200 " in answer else status(answer)

    return act


def datagram(address, port, family=socket.AF_INET):
    def act():
        s = socket.socket(family, socket.SOCK_DGRAM)
        s.settimeout(3)
        s.connect((address, port))
        s.send(b"x")
        return repr(s.recv(10))

    return act


def abstract():
    socket.socket(socket.AF_UNIX).connect("\0pinfold-world")
    return "SERVED"


def bind(address, port, *options):
    def act():
        s = socket.socket()
        for level, option in options:
            s.setsockopt(level, option, 1)
        s.bind((address, port))
        s.listen()
        return "BOUND"

    return act


def option(level, name, value=1):
    def act():
        s = connect(("web.example.com", 80))
        s.setsockopt(level, name, value)
        return "SET"

    return act


def original():
    return repr(connect(("web.example.com", 80)).getsockopt(socket.SOL_IP, 80, 16))


def command(*words):
    import subprocess

    def act():
        done = subprocess.run(words, capture_output=True)
        return "DONE" if done.returncode == 0 else "failed"

    return act


def raw(kind, protocol):
    def act():
        socket.socket(kind, socket.SOCK_RAW, protocol)
        return "OPEN"

    return act


REUSE = (socket.SOL_SOCKET, socket.SO_REUSEADDR), (socket.SOL_SOCKET, socket.SO_REUSEPORT)
timed("loopback", get("127.0.0.1"))
timed("metadata", get("169.254.169.254"))
timed("private", get("10.1.2.3"))
timed("direct", get("93.184.216.34"))
timed("direct-tls", get("93.184.216.34", 443))
timed("never-asked", get("198.18.77.77"))
timed("gateway-range", get("198.18.0.1"))
timed("any", get("0.0.0.0"))
timed("broadcast", get("255.255.255.255"))
if has_v6:
    timed("direct-v6", get(V6))
    timed("loopback-v6", get("::1"))
    timed("mapped", get("::ffff:169.254.169.254"))
    timed("udp-v6", datagram(V6, 443, socket.AF_INET6))
timed("abstract", abstract)
timed("udp", datagram("93.184.216.34", 443))
timed("udp-far", datagram("8.8.8.8", 123))
timed("udp-name", lambda: datagram(socket.gethostbyname("web.example.com"), 443)())
if os.environ.get('CONTROL'):
    raise SystemExit
for port in (53, 880, 881):
    timed(f"bind-{port}", bind("127.0.0.1", port))
    timed(f"bind-any-{port}", bind("0.0.0.0", port, *REUSE))
    timed(f"bind-public-{port}", bind("93.184.216.34", port, *REUSE))
timed("bind-443", bind("93.184.216.34", 443, *REUSE))
timed("transparent", option(socket.SOL_IP, 19))
timed("mark", option(socket.SOL_SOCKET, 36))
timed("original-destination", original)
timed("raw", raw(socket.AF_INET, socket.IPPROTO_TCP))
timed("packet", raw(socket.AF_PACKET, 3))
timed("nft-flush", command("nft", "flush", "ruleset"))
timed("nft-delete", command("nft", "delete", "table", "inet", "pinfold"))
timed("route", command("ip", "route", "del", "local", "default", "table", "local"))
timed("address", command("ip", "address", "add", "8.8.8.8/32", "dev", "lo"))
timed("link-down", command("ip", "link", "set", "lo", "down"))
# What may be bound locally must not take what is handed over.
high = bind("93.184.216.34", 8080)
timed("bind-local", high)
listening = socket.socket()
listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listening.bind(("0.0.0.0", 8443))
listening.listen()
timed("still", lambda: speak(connect(("web.example.com", 80)), "GET /still HTTP/1.0\r\n\r\n").split("\r\n")[0])
