# /proc: what belongs to the host, and what belongs to init.

import stat


def host_entries():
    """Every file of /proc that belongs to no process."""
    for top, directories, files in os.walk("/proc"):
        if top == "/proc":
            directories[:] = [
                name for name in directories
                if not name.isdigit() and name not in ("self", "thread-self", "net")
            ]
        for name in files:
            yield os.path.join(top, name)


@attempt("procfs", "open any of the host's files in /proc for writing", outside="never")
def write_anything(host):
    won = []
    for path in host_entries():
        try:
            if stat.S_ISREG(os.lstat(path).st_mode):
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
                won.append(path)
        except OSError:
            pass
    if not won:
        raise Refused("none")
    return won


@attempt("procfs", "change the mode of any of the host's files in /proc", outside="never")
def chmod_anything(host):
    won = []
    for path in host_entries():
        try:
            os.chmod(path, 0o666)
            won.append(path)
        except OSError:
            pass
    if not won:
        raise Refused("none")
    return won


@attempt("procfs", "write to files of /proc/net", outside="never")
def write_net(host):
    won = []
    for path in glob.glob("/proc/self/net/**", recursive=True):
        try:
            if stat.S_ISREG(os.lstat(path).st_mode):
                os.close(os.open(path, os.O_WRONLY))
                won.append(path)
        except OSError:
            pass
    if not won:
        raise Refused("none")
    return won


@each("procfs", "set {}", [
    "kernel/core_pattern", "kernel/modprobe", "kernel/hotplug", "kernel/hostname",
    "kernel/domainname", "kernel/sysrq", "kernel/randomize_va_space", "kernel/ns_last_pid",
    "kernel/shmmax", "kernel/sem", "fs/binfmt_misc/register", "fs/suid_dumpable", "fs/file-max",
    "fs/mqueue/msg_max", "vm/drop_caches", "vm/overcommit_memory", "user/max_user_namespaces",
    "net/ipv4/ip_forward", "net/ipv4/ip_unprivileged_port_start", "net/ipv4/ping_group_range",
], outside="never")
def sysctl(host, name):
    return os.open(f"/proc/sys/{name}", os.O_WRONLY)


@each("procfs", "read init's {}", [
    "environ", "mem", "maps", "smaps", "smaps_rollup", "auxv", "io", "stack", "syscall", "pagemap",
    "personality", "numa_maps", "wchan", "ns/net", "ns/mnt", "ns/user", "exe",
], outside="never")
def init_read(host, name):
    content = read(f"/proc/1/{name}", 64)
    if content in (b"", b"0"):
        raise Refused("nothing in it")
    return content


@each("procfs", "list init's {}", ["fd", "fdinfo", "map_files", "task/1/fd"], outside="never")
def init_list(host, name):
    return os.listdir(f"/proc/1/{name}")


@each("procfs", "write init's {}", [
    "mem", "oom_score_adj", "oom_adj", "comm", "clear_refs", "coredump_filter", "uid_map", "gid_map",
    "setgroups", "loginuid", "timerslack_ns", "attr/current", "attr/exec", "autogroup", "sched",
    "make-it-fail", "projid_map",
], outside="never")
def init_write(host, name):
    # Some may be opened by anybody, and only written to by their own process.
    return os.write(os.open(f"/proc/1/{name}", os.O_WRONLY), b"1")


@attempt("procfs", "read what pinfold was started with", outside="never")
def init_command_line(host):
    line = read("/proc/1/cmdline")
    if b"/" not in line and host.marker.encode() not in line:
        raise Refused(repr(line))
    return line


@each("procfs", "write own {}", ["uid_map", "gid_map", "setgroups", "loginuid"], outside="never")
def own_maps(host, name):
    with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
        file.write("allow" if name == "setgroups" else "0 0 1")
    return True


@attempt("procfs", "find kernel addresses", outside="unsaid")
def kernel_addresses(host):
    with open("/proc/kallsyms", encoding="ascii", errors="replace") as file:
        line = file.readline()
    if not line:
        raise Refused("empty")
    if int(line.split()[0], 16) == 0:
        raise Refused("zeros")
    return line


@attempt("procfs", "find addresses of the kernel's modules", outside="unsaid")
def module_addresses(host):
    with open("/proc/modules", encoding="ascii", errors="replace") as file:
        line = file.readline()
    if not line or int(line.split()[5], 16) == 0:
        raise Refused("zeros, or no modules")
    return line


@attempt("procfs", "find keys of the host")
def keys(host):
    lines = [line for name in ("keys", "key-users") for line in open(f"/proc/{name}", encoding="utf-8")]
    if not lines:
        raise Refused("none is named")
    return lines


@attempt("procfs", "find the host's control group", outside="unsaid")
def control_group(host):
    ids = [part for line in open("/proc/self/cgroup", encoding="utf-8") for part in [line.split(":")[2].strip()]]
    strange = [path for path in ids if path != "/"]
    if not strange:
        raise Refused("all at the top")
    return strange


@attempt("procfs", "find pinfold's own places in mountinfo")
def mountinfo(host):
    lines = open("/proc/self/mountinfo", encoding="utf-8").read().splitlines()
    # The private copies for git are a grant like any other: their line names its source.
    text = "\n".join(line for line in lines if " /run/pinfold/git " not in line)
    for place in (host.state, host.config, host.cache, host.home):
        if f" {place}" in text:
            return place
    if host.outside:
        return "outside there is no mount of ours"
    raise Refused("neither state, configuration, cache nor home")
