# What must work inside as it does outside: a wall that refuses everything proves nothing.

import socket
import threading


@attempt("granted", "read a file that is granted for reading", outside="granted")
def read_granted(host):
    return read(host.readable_file)


@attempt("granted", "change a file that is granted in full", outside="granted")
def write_granted(host):
    path = f"{host.writable}/new-{os.getpid()}"
    with open(path, "w", encoding="ascii") as file:
        file.write("new")
    os.chmod(path, 0o700)
    os.utime(path, (1, 1))
    os.truncate(path, 1)
    os.link(path, path + ".hard")
    os.rename(path + ".hard", path + ".moved")
    os.unlink(path + ".moved")
    os.unlink(path)
    return path


@attempt("granted", "trace a child", outside="granted")
def trace(host):
    pid = os.fork()
    if pid == 0:
        call("ptrace", 0, 0, 0, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(7)
    os.waitpid(pid, 0)
    syscall("ptrace", 7, pid, 0, 0)
    return os.WEXITSTATUS(os.waitpid(pid, 0)[1]) == 7 or None


@attempt("granted", "read a child's memory", outside="granted")
def child_memory(host):
    buffer = ctypes.create_string_buffer(b"to be found")
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
    copy = ctypes.create_string_buffer(11)
    local = (ctypes.c_size_t * 2)(ctypes.addressof(copy), 11)
    remote = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 11)
    try:
        syscall("process_vm_readv", pid, local, 1, remote, 1, 0)
        assert copy.raw == b"to be found"
        return copy.raw.decode()
    finally:
        os.kill(pid, signal.SIGKILL)
        os.wait()


@each("granted", "serve and connect at {}", ["127.0.0.1", "::1"], outside="granted")
def loopback(host, address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as server, socket.socket(family) as client:
        server.bind((address, 0))
        server.listen()
        client.connect(server.getsockname())
        peer, _ = server.accept()
        peer.send(b"hello")
        return client.recv(5).decode()


@attempt("granted", "use Unix sockets, with descriptors", outside="granted")
def unix(host):
    left, right = socket.socketpair()
    reader, writer = os.pipe()
    socket.send_fds(left, [b"x"], [writer])
    _, received, _, _ = socket.recv_fds(right, 1, 1)
    os.write(received[0], b"through")
    return os.read(reader, 7).decode()


@attempt("granted", "use shared memory and threads", outside="granted")
def shared(host):
    from multiprocessing import shared_memory
    memory = shared_memory.SharedMemory(create=True, size=64)
    thread = threading.Thread(target=lambda: memory.buf.__setitem__(0, 7))
    thread.start()
    thread.join()
    value = memory.buf[0]
    memory.close()
    memory.unlink()
    return value


@each("granted", "write in {}", ["/tmp", "/var/tmp", "/dev/shm"], outside="granted")
def private(host, place):
    path = f"{place}/private-{os.getpid()}"
    with open(path, "w", encoding="ascii") as file:
        file.write("private")
    os.unlink(path)
    return path


@attempt("granted", "open a terminal of one's own", outside="granted")
def terminal(host):
    controller, user = os.openpty()
    os.write(user, b"hello")
    return os.read(controller, 5).decode()


@each("granted", "set the persona for {}", [("a debugger", 0x0040000), ("the query", 0xFFFFFFFF)],
      outside="granted")
def persona(host, item):
    return syscall("personality", item[1]) >= 0


@attempt("granted", "list interfaces by netlink", outside="granted")
def interfaces_by_netlink(host):
    return socket.if_nameindex()


@attempt("granted", "run a debugger on a program of one's own", outside="granted")
def debugger(host):
    import shutil
    if shutil.which("gdb") is None:
        return "gdb is not installed"
    return shell("gdb -q -batch -ex 'break main' -ex run -ex 'info registers rip' -ex kill "
                 "--args /usr/bin/env true 2>&1 | grep -E '^(rip|Function|Inferior|\\[Inferior)'")


@attempt("granted", "trace system calls of a program of one's own", outside="granted")
def tracer_program(host):
    import shutil
    if shutil.which("strace") is None:
        return "strace is not installed"
    return shell("strace -f -o /dev/stdout true | grep -c execve")
