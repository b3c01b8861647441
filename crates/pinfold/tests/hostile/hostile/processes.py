# Other processes: the host's, init, and the launcher.

import resource


@attempt("processes", "see a process of the host by its marker")
def see(host):
    for pid in pids():
        try:
            if host.victim_marker.encode() in read(f"/proc/{pid}/environ", 65536):
                return pid
        except OSError:
            pass
    raise Refused("not there")


@attempt("processes", "see more processes than one's own")
def count(host):
    seen = []
    for pid in pids():
        try:
            if pid != 1 and os.getpgid(pid) != os.getpgid(0):
                seen.append(pid)
        except ProcessLookupError:
            pass  # It has ended since.
    if not seen:
        raise Refused("init and one's own")
    return len(seen)


@attempt("processes", "see pinfold itself", outside="unsaid")
def see_pinfold(host):
    for pid in pids():
        if pid != 1 and read(f"/proc/{pid}/comm").strip() == b"pinfold":
            return pid
    raise Refused("not there")


# A debugger's rights over a process that is no child depend on the machine.
PRIVILEGED = ("rt_sigqueueinfo", "ptrace", "process_vm_readv", "kcmp")


@each("processes", "reach a host process with {}", [
    "kill", "tgkill", "rt_sigqueueinfo", "pidfd_open", "prlimit", "setpriority", "sched_setaffinity",
    "getpgid", "ptrace", "process_vm_readv", "kcmp", "ioprio_set", "move_pages", "get_robust_list",
], outside=lambda how: "unsaid" if how in PRIVILEGED else "works")
def reach(host, how):
    pid = host.victim
    return {
        "kill": lambda: os.kill(pid, 0) or True,
        "tgkill": lambda: syscall("tgkill", pid, pid, 0) or True,
        "rt_sigqueueinfo": lambda: syscall("rt_tgsigqueueinfo", pid, pid, 0, (ctypes.c_char * 128)()) or True,
        "pidfd_open": lambda: os.pidfd_open(pid),
        "prlimit": lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE),
        "setpriority": lambda: os.setpriority(os.PRIO_PROCESS, pid, 19) or True,
        "sched_setaffinity": lambda: os.sched_setaffinity(pid, {0}) or True,
        "getpgid": lambda: os.getpgid(pid),
        "ptrace": lambda: syscall("ptrace", 0x4206, pid, 0, 0) or True,
        "process_vm_readv": lambda: vm_read(pid),
        "kcmp": lambda: syscall("kcmp", pid, pid, 0, 0, 0) or True,
        "ioprio_set": lambda: syscall("ioprio_set", 1, pid, 3 << 13) or True,
        "move_pages": lambda: syscall("move_pages", pid, 0, 0, 0, 0, 0) or True,
        "get_robust_list": lambda: syscall("get_robust_list", pid, ctypes.byref(ctypes.c_void_p()),
                                           ctypes.byref(ctypes.c_size_t())) or True,
    }[how]()



def vm_read(pid):
    local = ctypes.create_string_buffer(8)
    local_iov = (ctypes.c_size_t * 2)(ctypes.addressof(local), 8)
    remote_iov = (ctypes.c_size_t * 2)(first_mapping(pid), 8)
    return syscall("process_vm_readv", pid, local_iov, 1, remote_iov, 1, 0)


def first_mapping(pid):
    try:
        with open(f"/proc/{pid}/maps", encoding="ascii") as file:
            return int(file.readline().split("-")[0], 16)
    except OSError:
        return 0x400000


@each("processes", "reach init with {}", [
    "ptrace attach", "ptrace seize", "process_vm_readv", "process_vm_writev", "pidfd_getfd",
    "kcmp", "process_madvise", "process_mrelease", "move_pages", "get_robust_list", "migrate_pages",
], outside="never")
def reach_init(host, how):
    buffer = ctypes.create_string_buffer(8)
    local = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 8)
    remote = (ctypes.c_size_t * 2)(0x400000, 8)
    if how == "pidfd_getfd":
        init = os.pidfd_open(1)
        won = []
        for number in range(64):
            try:
                won.append(syscall("pidfd_getfd", init, number, 0))
            except OSError as error:
                if error.errno == errno.EBADF:
                    raise RuntimeError("looked at init's table") from error
        if not won:
            raise Refused("none")
        return won
    return {
        "ptrace attach": lambda: syscall("ptrace", 16, 1, 0, 0) or True,
        "ptrace seize": lambda: syscall("ptrace", 0x4206, 1, 0, 0) or True,
        "process_vm_readv": lambda: syscall("process_vm_readv", 1, local, 1, remote, 1, 0),
        "process_vm_writev": lambda: syscall("process_vm_writev", 1, local, 1, remote, 1, 0),
        "kcmp": lambda: syscall("kcmp", 1, os.getpid(), 0, 0, 0),
        "process_madvise": lambda: syscall("process_madvise", os.pidfd_open(1), remote, 1, 21, 0),
        "process_mrelease": lambda: syscall("process_mrelease", os.pidfd_open(1), 0) or True,
        "move_pages": lambda: syscall("move_pages", 1, 0, 0, 0, 0, 0) or True,
        "migrate_pages": lambda: syscall("migrate_pages", 1, 8, (ctypes.c_ulong * 1)(1), (ctypes.c_ulong * 1)(1)) or True,
        "get_robust_list": lambda: syscall("get_robust_list", 1, ctypes.byref(ctypes.c_void_p()),
                                           ctypes.byref(ctypes.c_size_t())) or True,
    }[how]()


@attempt("processes", "end or stop init with any signal", outside="never")
def signal_init(host):
    if host.own_kernel:
        raise Refused("gVisor's lets a sandbox end its own init, and everything inside with it")
    for number in range(1, 65):
        try:
            os.kill(1, number)
        except OSError:
            pass
    # Were init stopped or gone, nobody would reap this orphan.
    reader, writer = os.pipe()
    if os.fork() == 0:
        if os.fork() == 0:
            os._exit(0)
        os._exit(0)
    os.wait()
    os.close(writer)
    os.read(reader, 1)
    state = read("/proc/1/stat").split(b") ")[1][:1]
    if state in (b"S", b"R", b"D"):
        raise Refused(f"still in state {state.decode()}")
    return state


@each("processes", "hinder init by its {}", ["NOFILE", "CPU", "AS", "NPROC", "FSIZE", "MEMLOCK"],
      outside="never")
def hinder_by_limit(host, name):
    limit = getattr(resource, f"RLIMIT_{name}")
    soft, hard = resource.prlimit(1, limit)
    # Setting what is there already changes nothing and shows whether it could be.
    resource.prlimit(1, limit, (soft, hard))
    return soft, hard


@each("processes", "hinder init by its {}", [
    "priority", "scheduler", "affinity", "io priority", "group's priority", "user's priority",
], outside="never")
def hinder_by_schedule(host, how):
    own = os.sched_getscheduler(1)
    {
        "priority": lambda: os.setpriority(os.PRIO_PROCESS, 1, os.getpriority(os.PRIO_PROCESS, 1)),
        "scheduler": lambda: os.sched_setscheduler(1, own, os.sched_param(0)),
        "affinity": lambda: os.sched_setaffinity(1, os.sched_getaffinity(1)),
        "io priority": lambda: syscall("ioprio_set", 1, 1, 0),
        "group's priority": lambda: os.setpriority(os.PRIO_PGRP, 1, 0),
        "user's priority": lambda: os.setpriority(os.PRIO_USER, 0, 0),
    }[how]()
    return True


@attempt("processes", "become dumpable and be seen as init's tracer", outside="never")
def tracer(host):
    call("prctl", 4, 1, 0, 0, 0)
    call("prctl", 0x59616D61, ctypes.c_ulong(-1 & (2**64 - 1)), 0, 0, 0)
    return syscall("ptrace", 16, 1, 0, 0) or True


@attempt("processes", "join init's session or group", outside="never")
def join_group(host):
    os.setpgid(0, 1)
    return True


@attempt("processes", "find descriptors above the standard three", outside="unsaid")
def descriptors(host):
    # This process has a pipe to the driver; the command itself was given nothing.
    leader = os.getppid()
    found = [name for name in os.listdir(f"/proc/{leader}/fd") if int(name) > 2]
    strange = [os.readlink(f"/proc/{leader}/fd/{name}") for name in found]
    strange = [target for target in strange if not target.startswith(("pipe:", "/proc/"))]
    if not strange:
        raise Refused("none")
    return strange


@attempt("processes", "find init's channel among guessed descriptors", outside="unsaid")
def channel(host):
    import socket
    won = []
    for number in range(3, 1024):
        try:
            won.append(socket.socket(fileno=os.dup(number)).getsockname())
        except OSError:
            pass
    if not won:
        raise Refused("no socket among them")
    return won


@attempt("processes", "have ten thousand signals wait", outside="unsaid")
def waiting_signals(host):
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
    for _ in range(10_000):
        call("sigqueue", os.getpid(), int(signal.SIGRTMIN), ctypes.c_void_p(0))
    return "all of them"


@attempt("processes", "make ten thousand timers", outside="unsaid")
def timers(host):
    timer = ctypes.c_void_p()
    for _ in range(10_000):
        call("timer_create", 0, None, ctypes.byref(timer))
    return "all of them"
