# Files outside the grants, by name and by every way round a name.

SECRET_FILES = [
    "ssh_key", "cloud_key", "home_note", "other_file", "temp_file", "var_temp_file", "shm_file",
    "stored_secret", "config_file", "audit_log", "session_lock",
]


@each("host files", "read {}", SECRET_FILES)
def read_named(host, what):
    return read(getattr(host, what))


@each("host files", "list {}", ["home", "other", "state", "config", "cache"])
def list_named(host, what):
    return os.listdir(getattr(host, what))


@each("host files", "read the host's {}", [
    "/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/fstab", "/etc/crontab", "/etc/machine-id",
    "/etc/ssh/sshd_config", "/etc/pam.d/common-auth", "/var/lib/dpkg/status", "/var/log/dpkg.log",
    "/root/.bashrc", "/boot/config", "/run/utmp", "/proc/kcore", "/proc/kmsg",
], outside="unsaid")
def read_system(host, path):
    return read(path)


@each("host files", "list {}", [
    "/root", "/boot", "/mnt", "/media", "/srv", "/sys/class", "/sys/kernel", "/sys/fs/cgroup/unified", "/var/lib", "/var/log", "/var/spool",
    "/var/cache", "/lost+found", "/run/user", "/run/dbus", "/run/systemd", "/etc/pinfold",
], outside="unsaid")
def list_system(host, path):
    return os.listdir(path)


@attempt("host files", "find the host's users in /etc/passwd")
def users(host):
    names = [line.split(":")[0] for line in open("/etc/passwd", encoding="utf-8")]
    strange = [name for name in names if name not in ("root", "agent", "nobody")]
    if not strange:
        raise Refused("only root, agent and nobody")
    return strange


@attempt("host files", "find what lies next to the grants")
def next_to_grants(host):
    granted = ("ws", "readable", "writable")
    strange = [name for name in os.listdir(os.path.dirname(host.home)) if name not in granted]
    if not strange:
        raise Refused("only what was granted")
    return strange


@each("paths", "reach a file by {}", [
    ("dots from the workspace", "{ws}/../other/secret.txt"),
    ("dots from a granted directory", "{readable}/../other/secret.txt"),
    ("dots over the top", "/../../..{other_file}"),
    ("a link that was there before", "{ws}/link-out"),
    ("a link to a directory", "{ws}/link-dir/secret.txt"),
    ("/proc/self/root", "/proc/self/root{other_file}"),
    ("/proc/self/cwd", "/proc/self/cwd/../other/secret.txt"),
    ("/proc/thread-self/root", "/proc/thread-self/root{other_file}"),
    ("doubled slashes", "//{other_file}"),
    ("a dot at every step", "{ws}/./.././other/./secret.txt"),
])
def by_path(host, item):
    return read(item[1].format(**host.__dict__))


@each("paths", "reach a file by init's {}", ["root", "cwd"], outside="unsaid")
def by_init(host, what):
    return read(f"/proc/1/{what}{host.other_file}")


@attempt("paths", "reach a file by a new symbolic link")
def new_link(host):
    link = f"{host.ws}/new-link-{os.getpid()}"
    os.symlink(host.other_file, link)
    try:
        return read(link)
    finally:
        os.unlink(link)


@attempt("paths", "reach a file by a hard link")
def hard_link(host):
    link = f"{host.ws}/hard-{os.getpid()}"
    os.link(host.other_file, link)
    os.unlink(link)
    return link


@attempt("paths", "reach a file by a directory descriptor and dots")
def by_descriptor(host):
    directory = os.open(host.ws, os.O_RDONLY | os.O_DIRECTORY)
    return os.open("../other/secret.txt", os.O_RDONLY, dir_fd=directory)


@attempt("paths", "reach a file by changing directory upwards")
def by_chdir(host):
    os.chdir(host.ws)
    for _ in range(64):
        os.chdir("..")
    return read(host.other_file.lstrip("/"))


@attempt("paths", "move a file in from outside")
def move_in(host):
    target = f"{host.ws}/moved"
    os.rename(host.movable, target)
    os.rename(target, host.movable)
    return target


@attempt("paths", "move a directory of the workspace out and look back")
def move_out(host):
    source = f"{host.ws}/leaving-{os.getpid()}"
    os.mkdir(source)
    held = os.open(source, os.O_RDONLY)
    try:
        os.rename(source, f"{host.other}/leaving")
    except OSError:
        os.rmdir(source)
        raise
    found = os.open("../secret.txt", os.O_RDONLY, dir_fd=held)
    os.rmdir(f"{host.other}/leaving")
    return found


@attempt("paths", "follow every process's root, cwd and exe")
def magic_links(host):
    won = []
    for pid in pids():
        for name in ("root", "cwd"):
            try:
                won.append(read(f"/proc/{pid}/{name}{host.other_file}"))
            except OSError:
                pass
    if not won:
        raise Refused("none leads out")
    return len(won)


@attempt("paths", "find an open descriptor that leads out", outside="unsaid")
def open_descriptors(host):
    won = []
    for link in glob.glob("/proc/[0-9]*/fd/*") + glob.glob("/proc/[0-9]*/task/*/fd/*"):
        try:
            target = os.readlink(link)
            inside = target.startswith((host.ws, "/dev/", "/proc/", "pipe:", "anon_inode:", "/usr/"))
            if not inside:
                won.append((link, target))
        except OSError:
            pass
    if not won:
        raise Refused("none")
    return won


@attempt("paths", "open by file handle", outside="unsaid")
def by_handle(host):
    buffer = ctypes.create_string_buffer(136)
    ctypes.memmove(buffer, (128).to_bytes(4, "little"), 4)
    mount = ctypes.c_int()
    call("name_to_handle_at", -100, host.ws.encode(), buffer, ctypes.byref(mount), 0)
    directory = os.open(host.ws, os.O_RDONLY)
    return call("open_by_handle_at", directory, buffer, os.O_RDONLY)


@attempt("paths", "openat2 with a mode that no filter can read", outside="unsaid")
def openat2(host):
    how = (ctypes.c_uint64 * 3)(os.O_RDONLY, 0, 0)
    return syscall("openat2", -100, host.other_file.encode(), how, 24)


@each("host files", "write in {}", [
    "/", "/usr", "/usr/bin", "/usr/local", "/etc", "/etc/ssl", "/opt", "/bin", "/lib", "/home",
    "/run", "/run/pinfold", "/var", "/dev", "/proc", "/proc/sys", "{home}", "{home}/.ssh", "{other}",
    "{state}", "{config}", "{readable}",
], outside="unsaid")
def write_in(host, where):
    path = os.path.join(where.format(**host.__dict__), f"planted-{os.getpid()}")
    with open(path, "w", encoding="utf-8") as file:
        file.write("planted")
    os.unlink(path)
    return path


@each("host files", "change the program {}", ["/usr/bin/env", "/bin/sh", "/usr/bin/git"], outside="never")
def change_program(host, path):
    return os.open(os.path.realpath(path), os.O_WRONLY)


@attempt("host files", "change pinfold's own program by /proc/1/exe", outside="never")
def change_pinfold(host):
    return os.open("/proc/1/exe", os.O_WRONLY)


@attempt("host files", "read pinfold's own program by /proc/1/exe", outside="unsaid")
def read_pinfold(host):
    return read("/proc/1/exe")[:4]


# A lease or a delegation makes a process that opens the file wait for its holder.
LEASES = [("F_SETLEASE", 1024, 0), ("F_SETDELEG", 1040, 0)]


@each("host files", "hold a granted file by {}", LEASES, outside=lambda lease: "works" if lease[1] == 1024 else "unsaid")
def lease(host, lease):
    file = os.open(os.path.join(host.writable, "leased"), os.O_RDONLY | os.O_CREAT, 0o600)
    return call("fcntl", file, lease[1], lease[2])


@attempt("host files", "be notified of changes in a granted directory by F_NOTIFY", outside="unsaid")
def notified(host):
    return call("fcntl", os.open(host.writable, os.O_RDONLY), 1026, 2)
