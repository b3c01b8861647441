# Devices, terminals, shared memory and messages, and what names the caller.

import fcntl
import termios

DEVICES = {
    "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty",
    "urandom", "zero",
}


@attempt("devices", "find a device that programs do not need", outside="unsaid")
def devices(host):
    strange = sorted(set(os.listdir("/dev")) - DEVICES)
    if not strange:
        raise Refused("only those that programs need")
    return strange


@each("devices", "open {}", [
    "/dev/mem", "/dev/kmem", "/dev/port", "/dev/kmsg", "/dev/sda", "/dev/vda", "/dev/nvme0n1",
    "/dev/loop0", "/dev/loop-control", "/dev/dm-0", "/dev/mapper/control", "/dev/fuse", "/dev/kvm",
    "/dev/net/tun", "/dev/vhost-net", "/dev/vsock", "/dev/uinput", "/dev/input/event0", "/dev/console",
    "/dev/tty0", "/dev/tty1", "/dev/vcs1", "/dev/ttyS0", "/dev/dri/card0", "/dev/snd/controlC0",
    "/dev/userfaultfd", "/dev/cuse", "/dev/btrfs-control", "/dev/log", "/dev/mqueue", "/dev/hugepages",
    "/dev/cpu/0/msr", "/dev/tty",
], outside="unsaid")
def device(host, path):
    return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY)


@each("devices", "make a device node {}", [
    ("for memory", 0o20666, 1, 1), ("for a disk", 0o60666, 254, 0), ("for the console", 0o20666, 5, 1),
    ("that hides a file", 0o20666, 0, 0), ("like /dev/null", 0o20666, 1, 3),
], outside="unsaid")
def node(host, item):
    won = []
    for place in (host.ws, "/tmp", "/dev/shm"):
        path = f"{place}/node-{os.getpid()}"
        try:
            os.mknod(path, item[1], os.makedev(item[2], item[3]))
            won.append(path)
            os.unlink(path)
        except OSError:
            pass
    if not won:
        raise Refused("nowhere")
    return won


@attempt("devices", "leave a device node behind by a rename", outside="unsaid")
def whiteout(host):
    won, here, leaving = [], -100, 4
    for place in (host.ws, "/tmp", "/dev/shm"):
        path = f"{place}/moved-{os.getpid()}"
        with open(path, "w"):
            pass
        if LIBC.renameat2(here, path.encode(), here, f"{path}-on".encode(), leaving) == 0:
            won.append(path)
            os.unlink(f"{path}-on")
        os.unlink(path)
    if not won:
        raise Refused("nowhere")
    return won


@each("devices", "change /dev/null by {}", ["utime to now", "utime", "chmod", "chown", "setxattr"],
      outside="never")
def null(host, how):
    {
        "utime to now": lambda: os.utime("/dev/null"),
        "utime": lambda: os.utime("/dev/null", (1, 1)),
        "chmod": lambda: os.chmod("/dev/null", 0o666),
        "chown": lambda: os.chown("/dev/null", os.getuid(), -1),
        "setxattr": lambda: os.setxattr("/dev/null", "user.x", b"x"),
    }[how]()
    return True


@each("terminals", "type into a terminal of one's own by {}", [
    ("TIOCSTI", termios.TIOCSTI), ("TIOCSTI with high bits set", termios.TIOCSTI | 1 << 32),
    ("TIOCLINUX", 0x541C), ("TIOCSETD", 0x5423),
], outside="unsaid")
def inject(host, item):
    controller, user = os.openpty()
    if os.fork() == 0:
        os.setsid()
        fcntl.ioctl(user, termios.TIOCSCTTY, 0)
        LIBC.syscall.restype = ctypes.c_long
        done = LIBC.syscall(ctypes.c_long(NUMBERS["ioctl"]), ctypes.c_long(user), ctypes.c_ulong(item[1]), b"\x10x")
        os._exit(0 if done == 0 else 1)
    if os.WEXITSTATUS(os.wait()[1]) != 0:
        raise Refused("refused")
    return controller


@attempt("terminals", "take a terminal of the host", outside="unsaid")
def host_terminals(host):
    won = [path for path in glob.glob("/dev/pts/[0-9]*") + glob.glob("/dev/tty[0-9A-Z]*")]
    if not won:
        raise Refused("none is there")
    return won


@attempt("terminals", "mount the host's pts by its number", outside="never")
def pts(host):
    return call("mount", b"devpts", b"/tmp", b"devpts", ctypes.c_ulong(0), None)


@each("shared memory", "find the host's {}", ["segment", "semaphores", "messages"])
def system_v(host, what):
    key = host.ipc_key
    return {
        "segment": lambda: call("shmget", key, 0, 0),
        "semaphores": lambda: call("semget", key, 0, 0),
        "messages": lambda: call("msgget", key, 0),
    }[what]()


@each("shared memory", "list the host's {}", ["shm", "sem", "msg"])
def system_v_lists(host, what):
    lines = open(f"/proc/sysvipc/{what}", encoding="ascii").read().splitlines()[1:]
    if not lines:
        raise Refused("empty")
    return lines


@attempt("shared memory", "open the host's message queue")
def message_queue(host):
    return syscall("mq_open", host.mqueue.lstrip("/").encode(), os.O_RDONLY, 0, 0)


@each("environment", "find the caller's marker in {}", [
    "own environment", "every environment", "every command line", "own memory", "every file of /proc/self",
], outside=lambda where: "unsaid" if where == "every command line" else "works")
def marker(host, where):
    needle = host.marker.encode()
    if where == "own environment":
        found = needle in read("/proc/self/environ", 1 << 20)
    elif where in ("every environment", "every command line"):
        name = "environ" if where == "every environment" else "cmdline"
        found = False
        for pid in pids():
            try:
                found |= needle in read(f"/proc/{pid}/{name}", 1 << 20)
            except OSError:
                pass
    elif where == "own memory":
        found = needle in first_stack()
    else:
        found = False
        for name in ("environ", "cmdline", "auxv", "mountinfo", "cgroup", "maps", "status"):
            found |= needle in read(f"/proc/self/{name}", 1 << 20)
    if not found:
        raise Refused("not there")
    return where



def first_stack():
    """The stack, where the kernel put the environment."""
    for line in open("/proc/self/maps", encoding="ascii"):
        if line.rstrip().endswith("[stack]"):
            start, end = (int(part, 16) for part in line.split()[0].split("-"))
            with open("/proc/self/mem", "rb") as memory:
                memory.seek(start)
                return memory.read(end - start)
    raise RuntimeError("no stack")


LISTED = {
    "GIT_TEMPLATE_DIR", "HOME", "LOGNAME", "MOLTNET_GUEST_WORKSPACE", "PATH", "PINFOLD_HANDLED_BY",
    "PINFOLD_WORKSPACE",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
    "GOMEMLIMIT", "npm_config_update_notifier",
    # Certificates that the machine's own settings name.
    "NODE_USE_SYSTEM_CA", "PIP_CERT", "npm_config_cafile",
    "SHELL", "USER", "TERM", "LANG", "PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE",
}


@attempt("environment", "find a variable that is not listed")
def variables(host):
    strange = sorted(set(os.environ) - LISTED)
    if not strange:
        raise Refused("none")
    return strange


@attempt("environment", "learn the host's name", outside="unsaid")
def host_name(host):
    if os.uname().nodename == "pinfold":
        raise Refused("pinfold")
    return os.uname().nodename


@attempt("environment", "learn the machine's identity", outside="unsaid")
def identity(host):
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id", "/sys/class/dmi/id/product_uuid"):
        try:
            return read(path)
        except OSError:
            pass
    raise Refused("no such file")


GROUPS = "/sys/fs/cgroup"


@attempt("control groups", "find files of the kernel's hierarchy", outside="unsaid")
def hierarchy(host):
    kernels = ("cgroup.procs", "cgroup.threads", "cgroup.subtree_control", "tasks")
    found = [os.path.join(top, name) for top, _, names in os.walk(GROUPS) for name in names]
    found = [path for path in found if os.path.basename(path) in kernels]
    if not found:
        raise Refused("files of ours alone")
    return found


@attempt("control groups", "see names of other groups", outside="unsaid")
def other_groups(host):
    names = [name for name in os.listdir(GROUPS) if os.path.isdir(os.path.join(GROUPS, name))]
    strange = [name for name in names if name not in ("cpu", "memory")]
    if not strange:
        raise Refused("no group")
    return strange


@attempt("control groups", "uncover the kernel's hierarchy", outside="never")
def uncover_groups(host):
    detach = 2
    return call("umount2", GROUPS.encode(), detach)


@each("control groups", "raise what is shown in {}", ["memory.max", "cpu.max", "memory.high"], outside="never")
def raise_shown(host, name):
    path = os.path.join(GROUPS, name)
    with open(path, "w", encoding="utf-8") as file:
        return file.write("max")


@each("control groups", "replace {}", [GROUPS, "/proc/meminfo", "/proc/cgroups", "/run/pinfold/host-meminfo"],
      outside="never")
def replace_shown(host, path):
    os.rename(path, path + ".old")
    return path


@each("control groups", "mount {}", ["cgroup", "cgroup2"], outside="never")
def mount_groups(host, kind):
    return call("mount", b"none", b"/tmp", kind.encode(), ctypes.c_ulong(0), None)
