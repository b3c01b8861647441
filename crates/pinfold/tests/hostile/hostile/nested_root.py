# Attempts of who is root of namespaces that were made in the sandbox: users, mounts, network, IPC and names. Its processes are
# the sandbox's, so init and a program outside of these namespaces can be seen.

import socket
import struct
import tempfile

PROC = "/run/pinfold/nested/proc"
HERE = -100
CLONE, RECURSIVE, EMPTY, NOFOLLOW = 1, 0x8000, 0x1000, 0x100
BIND, REC, MOVE, REMOUNT, READ_ONLY, UNBINDABLE = 0x1000, 0x4000, 0x2000, 32, 1, 1 << 17
NEW_USER, NEW_MOUNTS = 0x10000000, 0x20000
SECRET = b"hunter2"


def mount(source, target, kind=None, flags=0, options=None):
    text = [None if word is None else word.encode() for word in (source, target, kind, options)]
    return call("mount", text[0], text[1], text[2], ctypes.c_ulong(flags), text[3])


def fresh():
    """An empty directory, in a mount namespace of this attempt's own."""
    syscall("unshare", NEW_MOUNTS)
    return tempfile.mkdtemp()


def open_tree(path, flags, directory=HERE):
    return syscall("open_tree", directory, path.encode(), flags)


def move_mount(source, target, flags=4):
    return syscall("move_mount", source, b"", HERE, target.encode(), flags)


def uncovered(*paths):
    """What lies under a mask, if one of these paths leads to it."""
    for path in paths:
        try:
            content = read(path)
        except OSError:
            continue
        if SECRET in content:
            return content
    raise Refused("masked, or not there")


def outer(host):
    """A program of the sandbox that is in none of these namespaces."""
    return int(read(f"{host.ws}/outer"))


@attempt("nested: granted", "mount file systems", outside="granted")
def granted_mounts(host):
    where = fresh()
    for kind in ("tmpfs", "ramfs", "mqueue"):
        mount("none", where, kind)
    return where


@attempt("nested: granted", "change the own network", outside="granted")
def granted_network(host):
    return shell("ip link set lo up && ip link add y0 type veth peer name y1 && ip link show y0")


@each("nested: hidden names", "clone {} without the mounts in it", ["", "/sub"], outside="never")
def clone_alone(host, below):
    return uncovered(f"/proc/self/fd/{open_tree(host.ws + below, CLONE)}/.env")


@each("nested: hidden names", "take the mask off {} in a recursive clone", ["", "/sub"], outside="never")
def clone_and_take_off(host, below):
    tree = open_tree(host.ws + below, CLONE | RECURSIVE)
    LIBC.umount2(f"/proc/self/fd/{tree}/.env".encode(), 2)
    return uncovered(f"/proc/self/fd/{tree}/.env")


@attempt("nested: hidden names", "bind the directory with the mask", outside="never")
def bind_directory(host):
    where = fresh()
    LIBC.mount(f"{host.ws}/sub".encode(), where.encode(), None, ctypes.c_ulong(BIND), None)
    return uncovered(f"{where}/.env")


@attempt("nested: hidden names", "have a recursive bind leave the mask out", outside="never")
def unbindable(host):
    where = fresh()
    mount(None, f"{host.ws}/sub/.env", None, UNBINDABLE)
    LIBC.mount(host.ws.encode(), where.encode(), None, ctypes.c_ulong(BIND | REC), None)
    return uncovered(f"{where}/sub/.env")


@attempt("nested: hidden names", "have a clone leave the mask out", outside="never")
def unbindable_clone(host):
    fresh()
    mount(None, f"{host.ws}/.env", None, UNBINDABLE)
    return uncovered(f"/proc/self/fd/{open_tree(host.ws, CLONE | RECURSIVE)}/.env")


@each("nested: hidden names", "make an overlay of {}", ["", "/sub"], outside="never")
def overlay_of(host, below):
    where = fresh()
    context = syscall("fsopen", b"overlay", 0)
    for key, value in ((b"lowerdir+", host.ws + below), (b"lowerdir+", where)):
        syscall("fsconfig", context, 1, key, value.encode(), 0)
    syscall("fsconfig", context, 6, None, None, 0)
    tree = syscall("fsmount", context, 0, 0)
    return uncovered(f"/proc/self/fd/{tree}/.env", f"/proc/self/fd/{tree}/sub/.env")


@attempt("nested: hidden names", "make an overlay on top of the directory", outside="never")
def overlay_on(host):
    where = fresh()
    for name in ("upper", "lower", "merged"):
        os.mkdir(f"{where}/{name}")
    os.mkdir(f"{host.ws}/work")
    options = f"lowerdir={where}/lower,upperdir={host.ws}/sub,workdir={host.ws}/work,userxattr"
    mount("none", f"{where}/merged", "overlay", 0, options)
    return uncovered(f"{where}/merged/.env")


@attempt("nested: hidden names", "put a mount beneath the mask", outside="never")
def beneath(host):
    fresh()
    other = open_tree("/etc/passwd", CLONE)
    move_mount(other, f"{host.ws}/.env", 4 | 0x200)
    call("umount2", f"{host.ws}/.env".encode(), 2)
    return "the mask is off"


@attempt("nested: hidden names", "write into the mask", outside="never")
def write_mask(host):
    fresh()
    syscall("mount_setattr", HERE, f"{host.ws}/.env".encode(), 0, struct.pack("=4Q", 0, 1, 0, 0), 32)
    return "it is writable"


@attempt("nested: hidden names", "configure the view again", outside="never")
def reconfigure(host):
    fresh()
    context = syscall("fspick", HERE, host.ws.encode(), 0)
    syscall("fsconfig", context, 0, b"ro", None, 0)
    syscall("fsconfig", context, 7, None, None, 0)
    return "done"


@attempt("nested: hidden names", "rename the directory around the mask", outside="never")
def rename_around(host):
    before, after = f"{host.ws}/sub", f"{host.ws}/renamed"
    fresh()
    try:
        os.rename(before, after)
    except OSError:
        LIBC.rename(f"{before}/.env".encode(), f"{before}/moved".encode())
        return uncovered(f"{before}/moved")
    try:
        return uncovered(f"{after}/.env")
    finally:
        os.rename(after, before)


@attempt("nested: hidden names", "swap it with another name", outside="never")
def swap_names(host):
    with open(f"{host.ws}/swapped", "w", encoding="ascii"):
        pass
    syscall("renameat2", HERE, f"{host.ws}/.env".encode(), HERE, f"{host.ws}/swapped".encode(), 2)
    return "swapped"


@attempt("nested: hidden names", "take the root away after a pivot", outside="never")
def pivot(host):
    where = fresh()
    LIBC.mount(host.ws.encode(), where.encode(), None, ctypes.c_ulong(BIND | REC), None)
    os.chdir(where)
    syscall("pivot_root", b".", b".")
    LIBC.umount2(b".", 2)
    LIBC.umount2(b"/.env", 2)
    return uncovered("/.env", "/sub/.env")


@attempt("nested: hidden names", "look from a namespace two levels down", outside="never")
def deeper(host):
    where = fresh()
    syscall("unshare", NEW_USER | NEW_MOUNTS)
    LIBC.umount2(f"{host.ws}/.env".encode(), 2)
    LIBC.mount(host.ws.encode(), where.encode(), None, ctypes.c_ulong(BIND), None)
    return uncovered(f"{host.ws}/.env", f"{where}/.env")


@attempt("nested: hidden names", "look through a program that is outside of these namespaces", outside="never")
def through_outer(host):
    return uncovered(f"{PROC}/{outer(host)}/root{host.ws}/.env", f"{PROC}/{outer(host)}/cwd/.env")


@each("nested: sealed", "make {} writable again", ["/", "/usr", "/proc/sys", "/dev", "/dev/null", "/sys"], outside="never")
def writable_again(host, path):
    fresh()
    syscall("mount_setattr", HERE, path.encode(), RECURSIVE, struct.pack("=4Q", 0, 1, 0, 0), 32)
    return path


@attempt("nested: sealed", "make the file system of a device writable", outside="never")
def reconfigure_usr(host):
    fresh()
    context = syscall("fspick", HERE, b"/usr", 0)
    syscall("fsconfig", context, 0, b"rw", None, 0)
    syscall("fsconfig", context, 7, None, None, 0)
    return "done"


@attempt("nested: sealed", "have the workspace's files owned by somebody else", outside="never")
def mapped_mount(host):
    fresh()
    tree = open_tree(host.ws, CLONE)
    users = os.open("/proc/self/ns/user", os.O_RDONLY)
    syscall("mount_setattr", tree, b"", EMPTY, struct.pack("=4Q", 0x100000, 0, 0, users), 32)
    return "mapped"


# What has rights of its own over a name space may be changed by who has them.
OWN_FILES = ("sys/net/", "sys/user/", "sys/kernel/", "sys/fs/mqueue/", "sys/fs/binfmt_misc/", "pressure/")


@attempt("nested: sealed", "open a file of the machine's in a /proc for writing", outside="never")
def kernel_files(host):
    where = fresh()
    # A /proc is one of processes.
    syscall("unshare", 0x20000000)
    reader, writer = os.pipe()
    if os.fork() == 0:
        mount("none", where, "proc")
        os.write(writer, json.dumps(writable_files(where)).encode())
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as answer:
        won = json.loads(answer.read())
    os.wait()
    if not won:
        raise Refused("none")
    return won


def writable_files(where):
    won = []
    for root in (where, PROC):
        for top, directories, files in os.walk(root):
            directories[:] = [name for name in directories if not name.isdigit() and name not in ("self", "thread-self")]
            for name in files:
                path = os.path.join(top, name)
                if os.path.islink(path) or os.path.relpath(path, root).startswith(OWN_FILES):
                    continue
                try:
                    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
                    won.append(path)
                except OSError:
                    pass
    return won


OF_THE_MACHINE = (
    "core_pattern", "modprobe", "hotplug", "sysrq", "randomize_va_space", "kptr_restrict", "dmesg_restrict", "yama/ptrace_scope",
    "perf_event_paranoid", "unprivileged_bpf_disabled", "kexec_load_disabled", "panic", "printk", "threads-max", "keys/maxkeys",
    "core_pipe_limit", "pid_max", "ftrace_dump_on_oops", "poweroff_cmd", "usermodehelper/bset",
)


@each("nested: sealed", "set kernel.{}", OF_THE_MACHINE, outside="never")
def machine_settings(host, name):
    # The own value, so that nothing changes where it succeeds. The largest process id is a namespace's own since Linux 6.14.
    path = f"{PROC}/sys/kernel/{name}"
    if name == "pid_max":
        raise Refused("a name space's own")
    value = read(path)
    return os.write(os.open(path, os.O_WRONLY), value)


@each("nested: init", "read its {}", ["environ", "mem", "maps", "auxv", "stack", "syscall", "exe"], outside="never")
def read_init(host, name):
    content = read(f"{PROC}/1/{name}", 64)
    if content in (b"", b"0"):
        raise Refused("nothing in it")
    return content


@each("nested: init", "follow its {}", ["root", "cwd", "fd", "map_files", "task/1/fd", "task/1/root"], outside="never")
def follow_init(host, name):
    return os.listdir(f"{PROC}/1/{name}")


KINDS = ["user", "mnt", "net", "ipc", "uts", "pid", "cgroup", "time"]


@each("nested: init", "enter its {} namespace", KINDS, outside="never")
def enter_init(host, name):
    return syscall("setns", os.open(f"{PROC}/1/ns/{name}", os.O_RDONLY), 0) or True


@each("nested: init", "enter its namespaces by a descriptor of the process, {}", [
    ("users", 0x10000000), ("mounts", 0x20000), ("network", 0x40000000), ("all of them", 0x6E020000),
], outside="never")
def enter_by_process(host, item):
    return syscall("setns", syscall("pidfd_open", 1, 0), item[1]) or True


@each("nested: init", "get its {} namespace from the descriptor", list(enumerate(
    ["cgroup", "ipc", "mnt", "net", "pid", "pid for children", "time", "time for children", "user", "uts"], 1)), outside="never")
def from_descriptor(host, item):
    import fcntl
    return fcntl.ioctl(syscall("pidfd_open", 1, 0), 0xFF00 | item[0], 0)


@each("nested: init", "{}", [
    ("attach to it", lambda: syscall("ptrace", 16, 1, 0, 0)),
    ("seize it", lambda: syscall("ptrace", 0x4206, 1, 0, 0)),
    ("take a descriptor of it", lambda: syscall("pidfd_getfd", syscall("pidfd_open", 1, 0), 0, 0)),
    ("take another descriptor of it", lambda: syscall("pidfd_getfd", syscall("pidfd_open", 1, 0), 3, 0)),
    ("read its memory", lambda: syscall("process_vm_readv", 1, (ctypes.c_size_t * 2)(0, 1), 1, (ctypes.c_size_t * 2)(4096, 1), 1, 0)),
    ("write its memory", lambda: syscall("process_vm_writev", 1, (ctypes.c_size_t * 2)(0, 1), 1, (ctypes.c_size_t * 2)(4096, 1), 1, 0)),
    ("compare its files", lambda: syscall("kcmp", 1, os.getpid(), 0, 0, 0)),
    ("advise its memory", lambda: syscall("process_madvise", syscall("pidfd_open", 1, 0), (ctypes.c_size_t * 2)(4096, 4096), 1, 21, 0)),
    ("limit its files", lambda: syscall("prlimit64", 1, 7, (ctypes.c_uint64 * 2)(1, 1), None)),
    ("move its pages", lambda: syscall("move_pages", 1, 1, (ctypes.c_size_t * 1)(4096), None, (ctypes.c_int * 1)(), 0)),
    ("choose its processors", lambda: os.sched_setaffinity(1, {0}) or True),
    ("protect it from nothing", lambda: os.write(os.open(f"{PROC}/1/oom_score_adj", os.O_WRONLY), b"1000")),
    ("map its users", lambda: os.write(os.open(f"{PROC}/1/uid_map", os.O_WRONLY), b"0 0 1")),
], outside="never")
def touch_init(host, item):
    return item[1]() or True


@each("nested: outer", "enter the {} namespace of a program outside", [kind for kind in KINDS if kind != "time"], outside="never")
def enter_outer(host, name):
    theirs = os.open(f"{PROC}/{outer(host)}/ns/{name}", os.O_RDONLY)
    if os.fstat(theirs).st_ino == os.stat(f"/proc/self/ns/{name}").st_ino and name == "pid":
        raise Refused("the same")
    return syscall("setns", theirs, 0) or True


@attempt("nested: outer", "enter the namespace of users that owns the own one", outside="never")
def parent_users(host):
    import fcntl
    parent = fcntl.ioctl(os.open("/proc/self/ns/user", os.O_RDONLY), 0xB702)
    return syscall("setns", parent, 0) or True


@attempt("nested: outer", "list the mounts of a program outside by their namespace's number", outside="never")
def list_mounts(host):
    import fcntl
    number = ctypes.c_uint64()
    theirs = os.open(f"{PROC}/{outer(host)}/ns/mnt", os.O_RDONLY)
    fcntl.ioctl(theirs, 0x8008B705, number)
    request = struct.pack("=2I3Q", 32, 0, 0xFFFFFFFFFFFFFFFF, 0, number.value)
    return syscall("listmount", request, (ctypes.c_uint64 * 8)(), 8, 0)


@each("nested: rights", "map {}", [
    ("a second user", "uid_map", "0 0 2"), ("the machine's root", "uid_map", "0 65534 1"), ("a second group", "gid_map", "0 0 2"),
    ("another group", "gid_map", "5 5 1"),
], outside="never")
def more_ids(host, item):
    """In a namespace below, whose ids are still to be chosen."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        syscall("unshare", NEW_USER)
        os.write(writer, b"x")
        time.sleep(PATIENCE)
    try:
        os.read(reader, 1)
        return os.write(os.open(f"/proc/{pid}/{item[1]}", os.O_WRONLY), item[2].encode())
    finally:
        os.kill(pid, signal.SIGKILL)
        os.wait()


@attempt("nested: rights", "map subordinate ids by the helpers that have set-user-ID bits", outside="never")
def helpers(host):
    return shell("command -v newuidmap >/dev/null || exit 1; exec >/dev/null; sleep 60 & newuidmap $! 0 0 1 1 100000 65536; done=$?; kill $!; exit $done")


@each("nested: rights", "raise the limit of {}", [("core files", 4), ("files", 7), ("tasks", 6), ("signals", 11)], outside="never")
def raise_limits(host, item):
    import resource
    soft, hard = resource.getrlimit(item[1])
    if hard == resource.RLIM_INFINITY:
        raise Refused("without one")
    try:
        resource.setrlimit(item[1], (soft, hard + 1))
    except ValueError as error:
        raise Refused(str(error)) from error
    return hard + 1


def connects(family, kind, address):
    with socket.socket(family, kind) as client:
        client.settimeout(2)
        client.connect(address)
        return address


@each("nested: network", "reach {} of the host", ["tcp4", "tcp6", "abstract"], outside="never")
def reach_host(host, what):
    LIBC.system(b"ip link set lo up")
    if what == "abstract":
        return connects(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + host.abstract)
    family, address = (socket.AF_INET, "127.0.0.1") if what == "tcp4" else (socket.AF_INET6, "::1")
    return connects(family, socket.SOCK_STREAM, (address, getattr(host, what)))


@each("nested: network", "put a device into the network {}", [
    ("of a program outside, as a pair", "ip link add x0 type veth peer name x1 netns {outer}"),
    ("of a program outside, moved", "ip link add x2 type veth peer name x6 && ip link set x2 netns {outer}"),
    ("of init", "ip link add x3 type veth peer name x4 netns 1"),
    ("of a program outside, as a tunnel", "ip link add x5 netns {outer} type vxlan id 5 dstport 4789 local 127.0.0.1"),
], outside="never")
def device_outside(host, item):
    return shell(item[1].format(outer=outer(host)))


def netlink(kind, flags, body):
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as client:
        client.send(struct.pack("=IHHII", 16 + len(body), kind, flags | 1, 1, 0) + body)
        answer = client.recv(65536)
    if struct.unpack_from("=H", answer, 4)[0] in (2, 3):
        error = -struct.unpack_from("=i", answer, 16)[0]
        if error:
            raise OSError(error, "netlink")
    return answer


@attempt("nested: network", "list the devices of the network of a program outside", outside="never")
def devices_outside(host):
    new_id, get_link, acknowledge, dump = 88, 18, 4, 0x300
    netlink(new_id, acknowledge, struct.pack("=4xHHiHHI", 8, 1, 7, 8, 2, outer(host)))
    return netlink(get_link, dump, struct.pack("=16xHHi", 8, 46, 7))[:64]


@attempt("nested: network", "make a device that reads and writes frames", outside="never")
def tunnel(host):
    where = fresh()
    mount("none", where, "tmpfs")
    for path in (f"{where}/tun", "/dev/net/tun"):
        if path.startswith(where):
            os.mknod(path, 0o20666, os.makedev(10, 200))
        os.open(path, os.O_RDWR)
    return "opened"


@each("nested: network", "open a packet socket by {}", [
    ("its family", socket.AF_PACKET, 3), ("the old type", socket.AF_INET, 10), ("the old type, closed on exec", socket.AF_INET, 10 | 0o2000000),
], outside="never")
def packets(host, item):
    return syscall("socket", item[1], item[2], 0x300)


@attempt("nested: network", "make a pair of packet sockets", outside="never")
def packet_pair(host):
    try:
        return syscall("socketpair", socket.AF_INET, 10, 0x300, (ctypes.c_int * 2)())
    except OSError as error:
        if error.errno != errno.EAFNOSUPPORT:
            raise RuntimeError("one was made first") from error
        raise


@each("nested: network", "open netlink family {}", [1, 2, *range(3, 23)], outside="never")
def netlink_families(host, number):
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, number)


@each("nested: network", "open socket family {}", [number for number in range(3, 47) if number not in (10, 16)], outside="never")
def families(host, number):
    won = []
    for kind in (1, 2, 3, 5):
        try:
            won.append(socket.socket(number, kind))
        except OSError:
            pass
    if not won:
        raise Refused("none")
    return won


# Who is let through reads these bytes, and refuses them by another error.
@each("nested: network", "reach what {} belongs to by an option", [
    ("a policy of IPsec", socket.AF_INET, 0, 17), ("an older policy of IPsec", socket.AF_INET, 0, 16),
    ("a policy of IPsec, IPv6", socket.AF_INET6, 41, 35), ("an older policy of IPsec, IPv6", socket.AF_INET6, 41, 34),
    ("a table of filters", socket.AF_INET, 0, 64), ("counters of filters", socket.AF_INET, 0, 65),
    ("a table of filters, IPv6", socket.AF_INET6, 41, 64), ("a table of ARP", socket.AF_INET, 0, 96),
    ("a table of bridges", socket.AF_INET, 0, 128), ("routes of multicasts", socket.AF_INET, 0, 200),
    ("routes of multicasts, IPv6", socket.AF_INET6, 41, 200), ("virtual servers", socket.AF_INET, 0, 1154),
], outside="never")
def options(host, item):
    with socket.socket(item[1]) as client:
        try:
            client.setsockopt(item[2], item[3], bytes(184))
        except OSError as error:
            if error.errno != errno.EPERM:
                raise RuntimeError(f"{errno.errorcode[error.errno]}: the option was let through") from error
            raise
    return "set"


SYSTEMS = [
    "sysfs", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "configfs", "efivarfs", "pstore", "selinuxfs", "smackfs",
    "hugetlbfs", "devtmpfs", "nfs", "nfs4", "ceph", "9p", "virtiofs", "ext4", "btrfs", "xfs", "vfat", "iso9660", "squashfs", "erofs",
    "f2fs", "ntfs3", "rpc_pipefs", "resctrl", "cpuset", "nfsd", "autofs", "fuseblk", "cifs", "fusectl",
]


@each("nested: kernel", "mount {}", SYSTEMS, outside="never")
def systems(host, kind):
    where = fresh()
    mount("/dev/zero", where, kind)
    return os.listdir(where)


def many(flag, name, start=0):
    """Makes namespaces that this process holds by descriptors. The kernel's memory for them is no process's."""
    import resource
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    held = []
    while len(held) < 1000:
        syscall("unshare", flag)
        held.append(os.open(f"/proc/self/ns/{name}", os.O_RDONLY))
    return len(held)


KEPT = [("networks", 0x40000000, "net"), ("mounts", NEW_MOUNTS, "mnt"), ("messages", 0x8000000, "ipc"), ("names", 0x4000000, "uts")]


@each("nested: kernel", "keep a thousand namespaces of {}", KEPT, outside="never")
def many_namespaces(host, item):
    return many(*item[1:])


@each("nested: kernel", "allow itself a thousand namespaces of {}", KEPT, outside="never")
def more_namespaces(host, item):
    path = f"{PROC}/sys/user/max_{item[2]}_namespaces"
    assert os.write(os.open(path, os.O_WRONLY), b"100000") == 6
    return many(*item[1:])


@attempt("nested: kernel", "keep six hundred namespaces of users", outside="never")
def many_users(host):
    """Each by a child that waits, of which a session may have more."""
    (reader, writer), children = os.pipe(), []
    try:
        while len(children) < 600:
            children.append(os.fork())
            if children[-1] == 0:
                os.write(writer, b"y" if LIBC.unshare(NEW_USER) == 0 else b"n")
                signal.pause()
            if os.read(reader, 1) == b"n":
                raise Refused(f"after {len(children)}")
        return "all of them"
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)


@each("nested: kernel", "{}", [
    ("bpf", lambda: syscall("bpf", 0, bytes(128), 128)), ("a token of bpf", lambda: syscall("bpf", 36, bytes(128), 128)),
    ("perf_event_open", lambda: syscall("perf_event_open", bytes(128), 0, -1, -1, 0)), ("io_uring", lambda: syscall("io_uring_setup", 1, bytes(120))),
    ("userfaultfd", lambda: syscall("userfaultfd", 1)), ("add a key", lambda: syscall("add_key", b"user", b"x", b"y", 1, -4)),
    ("join a keyring", lambda: syscall("keyctl", 1, 0)), ("fanotify", lambda: syscall("fanotify_init", 0x200, 0)),
    ("open by handle", lambda: syscall("open_by_handle_at", HERE, bytes(136), 0)), ("a quota", lambda: syscall("quotactl", 0x80000700, b"/", 0, 0)),
    ("clone3", lambda: syscall("clone3", (ctypes.c_uint64 * 8)(NEW_USER, 0, 0, 0, 17, 0, 0, 0), 64)),
    ("a namespace of control groups", lambda: syscall("unshare", 0x02000000) or True),
    ("a namespace of control groups by clone", lambda: syscall("clone", 0x02000000 | 17, 0, 0, 0, 0)),
    ("the clock", lambda: syscall("clock_settime", 0, struct.pack("=2q", 0, 0))), ("swap", lambda: syscall("swapon", b"/tmp/x", 0)),
    ("accounting", lambda: syscall("acct", b"/tmp/x")), ("the kernel's log", lambda: syscall("syslog", 3, bytes(64), 64)),
], outside="never")
def calls_of_root(host, item):
    return item[1]()


@each("nested: files", "give a file {}", [
    ("the set-user-ID bit", lambda path: os.chmod(path, 0o4755)),
    ("another owner", lambda path: os.chown(path, 1, -1)),
    ("another group", lambda path: os.chown(path, -1, 1)),
    ("a trusted attribute", lambda path: os.setxattr(path, "trusted.overlay.opaque", b"y")),
    ("immutability", lambda path: flags(path, 0x10)),
], outside="never")
def leave(host, item):
    path = f"{host.writable}/left-{os.getpid()}"
    with open(path, "w", encoding="ascii"):
        pass
    try:
        return item[1](path) or True
    finally:
        os.unlink(path)


def flags(path, value):
    import fcntl
    return fcntl.ioctl(os.open(path, os.O_RDONLY), 0x40086602, struct.pack("=q", value))
