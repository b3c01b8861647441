#!/usr/bin/python3
"""Stands for a QEMU in which a guest runs its own code: QEMU's filter of calls is not counted on. Says on the channel what it got."""

import ctypes
import os
import socket
import sys

if "--version" in sys.argv:
    print("QEMU emulator version 10.0.2")
    sys.exit()

LIBC = ctypes.CDLL(None, use_errno=True)
CHANNEL = "/run/pinfold/channel"
channel = socket.socket(socket.AF_UNIX)
channel.connect(CHANNEL)
FACTS = open("/run/pinfold/initramfs", encoding="utf-8").read().split()
SECRET, PORT, ABSTRACT, VICTIM = FACTS[0], int(FACTS[1]), FACTS[2], int(FACTS[3])
tried = 0


def attempt(name, function):
    global tried
    tried += 1
    try:
        won = function()
    except OSError:
        return
    if won is not None:
        channel.send(f"BREACH {name}: {won!r}\n".encode())


def call(number, *arguments):
    """A system call that gives something if it succeeds."""
    result = LIBC.syscall(number, *arguments)
    return None if result == -1 else result


def connect(family, kind, address):
    return lambda: socket.socket(family, kind).connect(address) or "connected"


def read(path):
    return lambda: open(path, "rb").read(64) or None


def write(path):
    return lambda: open(path, "ab") and "opened"


def second_channel():
    """It may still connect, but nobody greets it."""
    second = socket.socket(socket.AF_UNIX)
    second.settimeout(5)
    second.connect(CHANNEL)
    return second.recv(1) or None


def more_than(known, path):
    return lambda: sorted(set(os.listdir(path)) - set(known)) or None


for path in [SECRET, "/etc/passwd", "/etc/shadow", "/root/.bashrc", "/proc/1/environ", "/proc/1/mem", "/proc/1/maps", "/proc/kcore",
             f"/proc/{VICTIM}/environ", "/proc/keys", "/proc/kallsyms", "/sys/class/net/lo/address"]:
    attempt(f"read {path}", read(path))
for path in ["/new", "/usr/new", "/run/new", "/run/pinfold/new", "/etc/new", "/dev/new", "/run/pinfold/kernel", "/run/pinfold/initramfs", sys.argv[0],
             "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/1/oom_score_adj"]:
    attempt(f"write {path}", write(path))
for path in ["/dev/kvm", "/dev/mem", "/dev/vda", "/dev/net/tun", "/dev/vhost-net", "/dev/vhost-vsock", "/dev/fuse", "/dev/kmsg", "/dev/dri/card0"]:
    attempt(f"open {path}", lambda path=path: os.open(path, os.O_RDWR))
for top in ["/home", "/root", "/var", "/opt", "/srv", "/mnt", "/boot", "/proc/1/fd", "/proc/1/root", "/sys/kernel"]:
    attempt(f"list {top}", lambda top=top: os.listdir(top) or None)
# On the way to QEMU's own directory there is nothing else.
attempt("find what lies next to QEMU", more_than(["root"], os.path.dirname(SECRET)))
attempt("find an interface", lambda: [name for _, name in socket.if_nameindex() if name != "lo"] or None)
attempt("see a process", lambda: [pid for pid in os.listdir("/proc") if pid.isdigit() and pid not in ("1", str(os.getpid()))] or None)
attempt("find a descriptor", lambda: [
    target for target in (os.readlink(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd") if int(number) > 2)
    if not target.startswith(("socket:", "/proc/")) or target.startswith("/proc/1/")] or None)
attempt("find a variable", lambda: sorted(set(os.environ) - {"LD_LIBRARY_PATH", "QEMU_MODULE_DIR", "LC_CTYPE", "PWD"}) or None)
attempt("find a capability", lambda: [line for line in open("/proc/self/status", encoding="ascii") if line.startswith(("CapEff", "CapPrm", "CapBnd"))
                                      and int(line.split()[1], 16)] or None)
attempt("reach the host by TCP", connect(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", PORT)))
attempt("reach the host by an abstract name", connect(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + ABSTRACT))
attempt("have a second channel served", second_channel)
for family in (17, 38, 40, 29, 15):
    attempt(f"open family {family}", lambda family=family: socket.socket(family, 3))
attempt("open a packet socket", lambda: socket.socket(socket.AF_INET, 10))
for signal in (0, 15, 9):
    attempt(f"signal {signal}", lambda signal=signal: os.kill(VICTIM, signal) or "sent")
attempt("signal the parent", lambda: os.getppid() > 1 and os.kill(os.getppid(), 0) or None)
for name, number, *arguments in [
    ("a namespace of users", 272, 0x10000000), ("a namespace of mounts", 272, 0x20000), ("a namespace of networks", 272, 0x40000000),
    ("a mount", 165, b"none", b"/dev/shm", b"tmpfs", 0, None), ("another root", 161, b"/usr"), ("init's memory", 101, 16, 1, 0, 0),
    ("a descriptor of init's", 438, LIBC.syscall(434, 1, 0), 0, 0), ("bpf", 321, 0, bytes(64), 64), ("io_uring", 425, 1, bytes(120)),
    ("userfaultfd", 323, 1), ("performance counters", 298, bytes(128), 0, -1, -1, 0), ("keys", 250, 0, -4, 0), ("modules", 313, -1, b"", 0),
    ("a file's handle", 304, -100, bytes(136), 0), ("the clock", 227, 0, bytes(16)), ("the kernel's log", 103, 3, bytes(64), 64),
    ("another host name", 170, b"x", 1), ("other limits of init", 302, 1, 7, bytes(16), None), ("i/o ports", 172, 3),
]:
    attempt(name, lambda number=number, arguments=arguments: call(number, *arguments))
attempt("become root", lambda: os.setuid(0) or os.getuid() == 0 and "root" or None)
attempt("a control group", more_than(["cpu", "memory", "cpu.max", "memory.max", "cpu.stat", "memory.current", "memory.stat", "memory.high",
                                      "cgroup.controllers", "memory.swap.max", "memory.peak", "memory.events", "cpu.weight", "pids.max",
                                      "pids.current", "cpuset.cpus.effective", "memory.swap.current"], "/sys/fs/cgroup"))


def many_tasks():
    """More than a machine has."""
    children = []
    try:
        while len(children) < 400:
            children.append(os.fork())
            if children[-1] == 0:
                os.execv("/usr/bin/sleep", ["sleep", "60"])
        return "all of them"
    finally:
        for child in children:
            os.kill(child, 9)


attempt("four hundred tasks", many_tasks)
channel.send(f"tried {tried}\n".encode())
