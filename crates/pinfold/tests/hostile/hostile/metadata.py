# Changing what is granted for reading only: content, owner, mode, times, attributes, names.

import fcntl
import mmap
import socket
import stat


@each("read-only grants", "open for writing with {}", [
    ("O_WRONLY", os.O_WRONLY), ("O_RDWR", os.O_RDWR), ("O_APPEND", os.O_WRONLY | os.O_APPEND),
])
def open_for_writing(host, item):
    return os.open(host.readable_file, item[1])


@attempt("read-only grants", "empty with O_TRUNC")
def open_and_empty(host):
    return os.open(f"{host.readable}/spare", os.O_RDONLY | os.O_TRUNC)


@attempt("read-only grants", "open the directory with O_TMPFILE", outside="unsaid")
def temporary(host):
    return os.open(host.readable, os.O_WRONLY | os.O_TMPFILE, 0o600)


@attempt("read-only grants", "truncate by path")
def truncate(host):
    os.truncate(host.readable_file, os.stat(host.readable_file).st_size)
    return True


@attempt("read-only grants", "truncate by descriptor", outside="unsaid")
def ftruncate(host):
    os.ftruncate(os.open(host.readable_file, os.O_RDONLY), 0)
    return True


@attempt("read-only grants", "open a read descriptor again for writing")
def reopen(host):
    held = os.open(host.readable_file, os.O_RDONLY)
    return os.open(f"/proc/self/fd/{held}", os.O_WRONLY)


@attempt("read-only grants", "open an O_PATH descriptor again for writing")
def reopen_path(host):
    held = os.open(host.readable_file, os.O_PATH)
    return os.open(f"/proc/self/fd/{held}", os.O_RDWR)


@attempt("read-only grants", "chmod")
def chmod(host):
    os.chmod(host.readable_file, 0o666)
    return True


@attempt("read-only grants", "fchmod by a read descriptor")
def fchmod(host):
    os.fchmod(os.open(host.readable_file, os.O_RDONLY), 0o666)
    return True


@attempt("read-only grants", "fchmodat2 by an empty path", outside="unsaid")
def fchmodat2(host):
    held = os.open(host.readable_file, os.O_PATH)
    return syscall("fchmodat2", held, b"", 0o666, 0x1000)


@attempt("read-only grants", "chmod by /proc/self/fd")
def chmod_magic(host):
    held = os.open(host.readable_file, os.O_RDONLY)
    os.chmod(f"/proc/self/fd/{held}", 0o666)
    return True


@attempt("read-only grants", "chown to oneself")
def chown(host):
    os.chown(host.readable_file, os.getuid(), os.getgid())
    return True


@attempt("read-only grants", "fchown to oneself")
def fchown(host):
    os.fchown(os.open(host.readable_file, os.O_RDONLY), os.getuid(), os.getgid())
    return True


@attempt("read-only grants", "lchown a link")
def lchown(host):
    os.lchown(f"{host.readable}/link", os.getuid(), os.getgid())
    return True


@each("read-only grants", "utime {}", [("to now", None), ("to the past", (1, 1))])
def utime(host, item):
    os.utime(host.readable_file, item[1])
    return True


@attempt("read-only grants", "futimens by a read descriptor")
def futimens(host):
    os.utime(os.open(host.readable_file, os.O_RDONLY), (1, 1))
    return True


@attempt("read-only grants", "utime of the directory itself")
def utime_directory(host):
    os.utime(host.readable, (1, 1))
    return True


@attempt("read-only grants", "setxattr", outside="unsaid")
def setxattr(host):
    os.setxattr(host.readable_file, "user.planted", b"x")
    return True


@attempt("read-only grants", "fsetxattr by a read descriptor", outside="unsaid")
def fsetxattr(host):
    os.setxattr(os.open(host.readable_file, os.O_RDONLY), "user.planted", b"x")
    return True


@attempt("read-only grants", "removexattr", outside="unsaid")
def removexattr(host):
    os.removexattr(host.readable_file, "user.there")
    return True


@attempt("read-only grants", "set an access control list", outside="unsaid")
def access_list(host):
    entries = b"".join(
        tag.to_bytes(2, "little") + mode.to_bytes(2, "little") + (0xFFFFFFFF).to_bytes(4, "little")
        for tag, mode in ((1, 7), (4, 7), (0x20, 7))
    )
    os.setxattr(host.readable_file, "system.posix_acl_access", b"\2\0\0\0" + entries)
    return True


@attempt("read-only grants", "set inode flags", outside="unsaid")
def inode_flags(host):
    held = os.open(host.readable_file, os.O_RDONLY)
    fcntl.ioctl(held, 0x40086602, (0x80).to_bytes(8, "little"))
    return True


@attempt("read-only grants", "map shared and writable")
def shared_map(host):
    held = os.open(host.readable_file, os.O_RDWR)
    return mmap.mmap(held, 1, mmap.MAP_SHARED, mmap.PROT_WRITE)


@attempt("read-only grants", "make a read-only mapping writable", outside="unsaid")
def upgrade_map(host):
    held = os.open(host.readable_file, os.O_RDONLY)
    LIBC.mmap.restype = ctypes.c_void_p
    at = LIBC.mmap(None, ctypes.c_size_t(4096), 1, 1, held, ctypes.c_long(0))
    call("mprotect", ctypes.c_void_p(at), ctypes.c_size_t(4096), 3)
    ctypes.memmove(at, b"planted", 7)
    return True



@attempt("read-only grants", "copy_file_range into it")
def copy_range(host):
    source = os.open(f"{host.ws}/file.txt", os.O_RDONLY)
    target = os.open(host.readable_file, os.O_WRONLY)
    return os.copy_file_range(source, target, 1)


@attempt("read-only grants", "unlink")
def unlink(host):
    os.unlink(f"{host.readable}/spare")
    return True


@attempt("read-only grants", "rename within")
def rename(host):
    os.rename(host.readable_file, f"{host.readable}/renamed")
    os.rename(f"{host.readable}/renamed", host.readable_file)
    return True


@attempt("read-only grants", "move the workspace's file in")
def move_in_readable(host):
    os.rename(f"{host.ws}/movable.txt", f"{host.readable}/moved.txt")
    os.rename(f"{host.readable}/moved.txt", f"{host.ws}/movable.txt")
    return True


@attempt("read-only grants", "swap with the workspace's file", outside="never")
def swap(host):
    return syscall("renameat2", -100, f"{host.ws}/file.txt".encode(), -100, host.readable_file.encode(), 2)



@each("read-only grants", "make a {}", ["directory", "link", "hard link", "fifo", "socket"])
def make(host, kind):
    path = f"{host.readable}/made-{os.getpid()}"
    if kind == "directory":
        os.mkdir(path)
        os.rmdir(path)
        return path
    if kind == "link":
        os.symlink("/", path)
    elif kind == "hard link":
        os.link(host.readable_file, path)
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        socket.socket(socket.AF_UNIX).bind(path)
    os.unlink(path)
    return path


@attempt("read-only grants", "remount it writable by ioctl or mount", outside="never")
def remount(host):
    return call("mount", None, host.readable.encode(), None, ctypes.c_ulong(0x20 | 0x1000), None)


@attempt("read-only grants", "change a granted program's library", outside="never")
def library(host):
    path = next(iter(glob.glob("/usr/lib/*/libc.so.6") + glob.glob("/lib*/libc.so.6") + glob.glob("/lib/*/libc.so.6")))
    return os.open(path, os.O_WRONLY)


# fchmodat2 is there since Linux 6.6.
@each("set-user-id", "make a program of the user's by {}", [
    "chmod", "fchmod", "fchmodat2", "creat", "open", "openat2", "mknod", "chmod by /proc/self/fd",
], outside=lambda how: "unsaid" if how == "fchmodat2" else "works")
def set_user_id(host, how):
    path = f"{host.ws}/suid-{os.getpid()}"
    try:
        if how == "open":
            os.umask(0)
            os.open(path, os.O_CREAT | os.O_WRONLY, 0o4755)
        elif how == "creat":
            os.umask(0)
            syscall("creat", path.encode(), 0o4755)
        elif how == "mknod":
            os.umask(0)
            os.mknod(path, 0o4755 | stat.S_IFREG)
        elif how == "openat2":
            struct = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, 0o4755, 0)
            syscall("openat2", -100, path.encode(), struct, 24)
        else:
            held = os.open(path, os.O_CREAT | os.O_RDWR, 0o755)
            if how == "chmod":
                os.chmod(path, 0o4755)
            elif how == "fchmod":
                os.fchmod(held, 0o4755)
            elif how == "fchmodat2":
                syscall("fchmodat2", -100, path.encode(), 0o4755, 0)
            else:
                os.chmod(f"/proc/self/fd/{held}", 0o4755)
        if not os.stat(path).st_mode & stat.S_ISUID:
            raise Refused("the bit did not stay")
        return oct(os.stat(path).st_mode)
    finally:
        if os.path.exists(path):
            os.unlink(path)


@each("set-user-id", "gain rights from {}", ["su", "sudo", "mount", "passwd", "newgrp", "chsh", "gpasswd"],
      outside="unsaid")
def set_user_id_program(host, name):
    import shutil
    path = shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin")
    if path is None:
        raise Refused("not installed")
    if not os.stat(path).st_mode & stat.S_ISUID:
        raise Refused("without the bit")
    if os.statvfs(path).f_flag & os.ST_NOSUID:
        raise Refused("the mount ignores the bit")
    return path
