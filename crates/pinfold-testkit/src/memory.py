"""Looks for the real key in everything that can be read inside. The key comes disguised, so that
this program, the model's order to run it and the agent that hands it on do not hold it."""

import os
import sys

key = bytes(byte ^ 0x5A for byte in bytes.fromhex(sys.argv[1]))
OWN = str(os.getpid())
found, searched = [], 0


def holds(path, data):
    global searched
    searched += len(data)
    if key in data:
        found.append(path)


def search_memory(pid):
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        areas = [line.split() for line in maps]
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for area in areas:
            start, end = (int(part, 16) for part in area[0].split("-"))
            if "r" not in area[1] or area[-1] in ("[vvar]", "[vsyscall]", "[vvar_vclock]"):
                continue
            for at in range(start, end, 1 << 22):
                try:
                    memory.seek(at)
                    holds(f"memory of {pid}", memory.read(min(1 << 22, end - at) + len(key)))
                except (OSError, ValueError, OverflowError):
                    pass


def search_file(path):
    try:
        if os.path.isfile(path) and not os.path.islink(path):
            with open(path, "rb") as file:
                holds(path, file.read())
    except OSError:
        pass


for pid in filter(str.isdigit, os.listdir("/proc")):
    for name in ("environ", "cmdline", "auxv"):
        if pid != OWN:
            try:
                with open(f"/proc/{pid}/{name}", "rb") as file:
                    holds(f"/proc/{pid}/{name}", file.read())
            except OSError:
                pass
    if pid != OWN:
        try:
            search_memory(pid)
        except OSError:
            pass
for top in ("/home", "/tmp", "/var", "/dev/shm", "/run/pinfold", "/etc", os.environ["PINFOLD_WORKSPACE"]):
    for directory, _, names in os.walk(top):
        if not directory.startswith("/run/pinfold/agent"):
            for name in names:
                search_file(os.path.join(directory, name))
print(f"searched {searched >> 20} MB and found {found}")
