# What the kernel offers: namespaces, mounts, capabilities, and calls that nobody needs inside.

import mmap
import resource
import struct

NAMESPACES = [
    ("mount", 0x20000), ("cgroup", 0x2000000), ("uts", 0x4000000), ("ipc", 0x8000000),
    ("user", 0x10000000), ("pid", 0x20000000), ("net", 0x40000000), ("time", 0x80),
]
USER = 0x10000000


@each("namespaces", "unshare {}", NAMESPACES, outside="unsaid")
def unshare(host, item):
    return syscall("unshare", item[1]) or True


@each("namespaces", "unshare {} with a user namespace", NAMESPACES,
      outside=lambda item: "works" if item[0] != "user" else "unsaid")
def unshare_with_user(host, item):
    return syscall("unshare", item[1] | USER) or True


@each("namespaces", "clone into {}", [item for item in NAMESPACES if item[0] != "time"], outside="unsaid")
def clone(host, item):
    pid = syscall("clone", item[1] | USER | 17, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return pid


@each("namespaces", "clone3 into {}", NAMESPACES, outside="unsaid")
def clone3(host, item):
    arguments = (ctypes.c_uint64 * 8)(item[1] | USER, 0, 0, 0, 17, 0, 0, 0)
    pid = syscall("clone3", arguments, 64)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return pid


@each("namespaces", "enter one's own {} again", ["mnt", "net", "pid", "ipc", "uts", "user", "cgroup"],
      outside="unsaid")
def setns(host, name):
    return syscall("setns", os.open(f"/proc/self/ns/{name}", os.O_RDONLY), 0) or True


@each("mounts", "{}", [
    ("mount a tmpfs", lambda h: call("mount", b"t", b"/tmp", b"tmpfs", ctypes.c_ulong(0), None)),
    ("mount proc", lambda h: call("mount", b"p", b"/tmp", b"proc", ctypes.c_ulong(0), None)),
    ("mount sysfs", lambda h: call("mount", b"s", b"/tmp", b"sysfs", ctypes.c_ulong(0), None)),
    ("bind", lambda h: call("mount", b"/usr", b"/tmp", None, ctypes.c_ulong(0x1000), None)),
    ("make the root writable", lambda h: call("mount", None, b"/", None, ctypes.c_ulong(0x1020), None)),
    ("make /usr writable", lambda h: call("mount", None, b"/usr", None, ctypes.c_ulong(0x1020), None)),
    ("make everything shared", lambda h: call("mount", None, b"/", None, ctypes.c_ulong(1 << 20 | 0x4000), None)),
    ("move", lambda h: call("mount", b"/dev/shm", b"/tmp", None, ctypes.c_ulong(0x2000), None)),
    ("take /proc away", lambda h: call("umount2", b"/proc", 2)),
    ("take /dev/shm away", lambda h: call("umount2", b"/dev/shm", 2)),
    ("take the workspace away", lambda h: call("umount2", h.ws.encode(), 2)),
    ("take the root away", lambda h: call("umount2", b"/", 2)),
    ("pivot_root", lambda h: syscall("pivot_root", b"/tmp", b"/tmp")),
    ("chroot", lambda h: syscall("chroot", b"/tmp")),
    ("fsopen", lambda h: syscall("fsopen", b"tmpfs", 0)),
    ("fspick", lambda h: syscall("fspick", -100, b"/", 0)),
    ("fsconfig", lambda h: syscall("fsconfig", 0, 6, 0, 0, 0)),
    ("fsmount", lambda h: syscall("fsmount", 0, 0, 0)),
    ("open_tree", lambda h: syscall("open_tree", -100, b"/", 1)),
    ("move_mount", lambda h: syscall("move_mount", -100, b"/dev/shm", -100, b"/tmp", 0)),
    ("mount_setattr", lambda h: syscall("mount_setattr", -100, b"/usr", 0, (ctypes.c_uint64 * 4)(0, 1, 0, 0), 32)),
    ("open_tree_attr", lambda h: syscall("open_tree_attr", -100, b"/", 1, (ctypes.c_uint64 * 4)(), 32)),
], outside="never")
def mounts(host, item):
    return item[1](host) or True


# Arguments that do no harm where the call is let through: what counts is whether it is.
@each("calls", "{}", [
    ("bpf", lambda: syscall("bpf", 0, bytes(64), 64), "EPERM"),
    ("perf_event_open", lambda: syscall("perf_event_open", bytes(128), 0, -1, -1, 0), "EPERM"),
    ("io_uring_setup", lambda: syscall("io_uring_setup", 8, bytes(120)), "ENOSYS"),
    ("io_uring_enter", lambda: syscall("io_uring_enter", 0, 0, 0, 0, 0, 0), "ENOSYS"),
    ("io_uring_register", lambda: syscall("io_uring_register", 0, 0, 0, 0), "ENOSYS"),
    ("userfaultfd", lambda: syscall("userfaultfd", 1), "ENOSYS"),
    ("kexec_load", lambda: syscall("kexec_load", 0, 0, 0, 0), "EPERM"),
    ("kexec_file_load", lambda: syscall("kexec_file_load", -1, -1, 0, b"", 0), "EPERM"),
    ("init_module", lambda: syscall("init_module", bytes(8), 8, b""), "EPERM"),
    ("finit_module", lambda: syscall("finit_module", -1, b"", 0), "EPERM"),
    ("delete_module", lambda: syscall("delete_module", b"none", 0), "EPERM"),
    ("reboot", lambda: syscall("reboot", 0, 0, 0, 0), "EPERM"),
    ("swapon", lambda: syscall("swapon", b"/nonexistent", 0), "EPERM"),
    ("swapoff", lambda: syscall("swapoff", b"/nonexistent"), "EPERM"),
    ("settimeofday", lambda: syscall("settimeofday", 0, 0), "EPERM"),
    ("clock_settime", lambda: syscall("clock_settime", 99, 0), "EPERM"),
    ("sethostname", lambda: syscall("sethostname", b"x", 1), "EPERM"),
    ("setdomainname", lambda: syscall("setdomainname", b"x", 1), "EPERM"),
    ("acct", lambda: syscall("acct", b"/nonexistent"), "EPERM"),
    ("quotactl", lambda: syscall("quotactl", 0, b"", 0, 0), "EPERM"),
    ("quotactl_fd", lambda: syscall("quotactl_fd", -1, 0, 0, 0), "EPERM"),
    ("syslog", lambda: syscall("syslog", 10, 0, 0), "EPERM"),
    ("iopl", lambda: syscall("iopl", 0), "EPERM"),
    ("ioperm", lambda: syscall("ioperm", 0, 1, 1), "EPERM"),
    ("modify_ldt", lambda: syscall("modify_ldt", 0, 0, 0), "EPERM"),
    ("vhangup", lambda: syscall("vhangup"), "EPERM"),
    ("add_key", lambda: syscall("add_key", b"user", b"x", b"y", 1, -3), "EPERM"),
    ("request_key", lambda: syscall("request_key", b"user", b"x", 0, 0), "EPERM"),
    ("keyctl", lambda: syscall("keyctl", 0, -4, 0), "EPERM"),
    ("fanotify_init", lambda: syscall("fanotify_init", 0x200, 0), "EPERM"),
    ("fanotify_mark", lambda: syscall("fanotify_mark", -1, 1, 0, 0, -100, b"/"), "EPERM"),
    ("open_by_handle_at", lambda: syscall("open_by_handle_at", -100, bytes(16), 0), "EPERM"),
    ("memfd_secret", lambda: syscall("memfd_secret", 0), "EPERM"),
    ("nfsservctl", lambda: syscall("nfsservctl", 0, 0, 0), "ENOSYS"),
    ("lookup_dcookie", lambda: syscall("lookup_dcookie", 0, 0, 0), "ENOSYS"),
    ("_sysctl", lambda: syscall("_sysctl", 0), "ENOSYS"),
    ("uselib", lambda: syscall("uselib", b"/x"), "ENOSYS"),
    ("personality of another system", lambda: syscall("personality", 0x0008), "EPERM"),
    ("personality that reads are executable", lambda: syscall("personality", 0x0400000), "EPERM"),
    ("personality that maps page zero", lambda: syscall("personality", 0x0100000), "EPERM"),
    ("a call from the future", lambda: syscall(999), "ENOSYS"),
    ("the first unused call", lambda: syscall(500), "ENOSYS"),
], outside="never")
def calls(host, item):
    try:
        return item[1]() or True
    except OSError as error:
        name = errno.errorcode[error.errno]
        if name != item[2]:
            raise RuntimeError(f"{name} instead of {item[2]}: the call was let through") from error
        raise


def machine_code(code):
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    return ctypes.CFUNCTYPE(ctypes.c_long)(address)()


def arm_program():
    """A program for 32-bit ARM that calls getpid(2), then exit(2) with 0."""
    code = struct.pack("<5I", 0xE3A07014, 0xEF000000, 0xE3A07001, 0xE3A00000, 0xEF000000)
    base, headers = 0x10000, 84
    size = headers + len(code)
    elf = struct.pack("<16sHHIIIIIHHHHHH", b"\x7fELF\1\1\1", 2, 40, 1, base + headers, 52, 0, 0x05000000, 52, 32, 1, 0, 0, 0)
    return elf + struct.pack("<8I", 1, 0, base, base, size, size, 5, 0x1000) + code


@attempt("other doors", "call the kernel as a 32-bit program", outside="unsaid")
def narrow(host):
    if os.uname().machine == "x86_64":
        return machine_code(b"\xb8\x14\0\0\0\xcd\x80\xc3")
    path = f"/tmp/narrow-{os.getpid()}"
    with open(path, "wb") as file:
        file.write(arm_program())
    os.chmod(path, 0o755)
    status = os.spawnv(os.P_WAIT, path, [path])
    if status != 0:
        raise Refused(f"status {status}")
    return True


@attempt("other doors", "call the kernel as an x32 program", outside="unsaid")
def x32(host):
    return syscall(0x40000000 | 39)


@attempt("other doors", "call the kernel with a number beyond all", outside="unsaid")
def beyond(host):
    return syscall(0x7FFFFFFF)


@attempt("other doors", "take the filter off", outside="unsaid")
def filter_off(host):
    return call("prctl", 22, 0, 0, 0, 0) or True


@attempt("other doors", "read the filter by ptrace", outside="unsaid")
def filter_read(host):
    pid = os.fork()
    if pid == 0:
        call("ptrace", 0, 0, 0, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    os.waitpid(pid, 0)
    try:
        return syscall("ptrace", 0x420C, pid, 0, 0)
    finally:
        os.kill(pid, signal.SIGKILL)


def status(field):
    for line in open("/proc/self/status", encoding="ascii"):
        if line.startswith(f"{field}:"):
            return line.split()[1]
    raise RuntimeError(field)


@each("rights", "hold a capability in {}", ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"], outside="unsaid")
def capabilities(host, field):
    if int(status(field), 16) == 0:
        raise Refused("none")
    return status(field)


@attempt("rights", "gain rights by execve", outside="unsaid")
def new_privileges(host):
    if status("NoNewPrivs") == "1":
        raise Refused("no_new_privs")
    return True


@each("rights", "{}", [
    ("clear no_new_privs", lambda: call("prctl", 38, 0, 0, 0, 0)),
    ("raise a capability", lambda: syscall("capset", struct.pack("=Ii", 0x20080522, 0), b"\xff" * 24)),
    ("raise an ambient one", lambda: call("prctl", 47, 2, 21, 0, 0)),
    ("set secure bits", lambda: call("prctl", 28, 1, 0, 0, 0)),
    ("become root", lambda: os.setuid(0)),
    ("become root's group", lambda: os.setgid(0)),
    ("become another user", lambda: os.setresuid(12345, 12345, 12345)),
    ("join groups", lambda: os.setgroups([0, 4, 27])),
    ("become root to the file system", lambda: become_file_system_root()),
    ("raise the limit of open files", lambda: raise_limit(resource.RLIMIT_NOFILE)),
    ("raise the limit of tasks", lambda: raise_limit(resource.RLIMIT_NPROC)),
    ("raise the limit of core dumps", lambda: raise_limit(resource.RLIMIT_CORE)),
    ("lower its niceness", lambda: os.nice(-5)),
    ("become a real-time task", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))),
    ("lock much memory", lambda: call("mlock", mmap_address(64 << 20), ctypes.c_size_t(64 << 20))),
    ("protect itself from the OOM killer", lambda: os.write(os.open("/proc/self/oom_score_adj", os.O_WRONLY), b"-1000")),
], outside="never")
def rights(host, item):
    return item[1]() or True


def become_file_system_root():
    LIBC.setfsuid(0)
    # setfsuid(2) reports nothing but the id that was in force before.
    if LIBC.setfsuid(-1) != 0:
        raise Refused("unchanged")


def raise_limit(limit):
    soft, hard = resource.getrlimit(limit)
    if hard == resource.RLIM_INFINITY:
        return "there is no limit"
    try:
        resource.setrlimit(limit, (soft, hard + 1))
    except ValueError as error:
        raise Refused(str(error)) from error
    return hard + 1


def mmap_address(size):
    LIBC.mmap.restype = ctypes.c_void_p
    return ctypes.c_void_p(LIBC.mmap(None, ctypes.c_size_t(size), 3, 0x22, -1, ctypes.c_long(0)))
