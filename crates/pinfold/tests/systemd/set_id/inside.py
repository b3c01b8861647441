import os
import stat
import sys

LOOT = 3
shell = os.open("shell", os.O_CREAT | os.O_WRONLY, 0o755, dir_fd=LOOT)
with open("/usr/bin/dash", "rb") as dash:
    os.write(shell, dash.read())
os.fchmod(shell, 0o755)
print("made a shell", flush=True)
project = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY)


def tries(directory, mode):
    name = "%o" % mode
    yield lambda: os.open(name, os.O_CREAT | os.O_WRONLY, mode, dir_fd=directory)
    yield lambda: os.mknod(name + "-node", stat.S_IFREG | mode, dir_fd=directory)
    yield lambda: os.mkdir(name + "-directory", mode, dir_fd=directory)
    plain = os.open(name + "-plain", os.O_CREAT | os.O_WRONLY, 0o755, dir_fd=directory)
    yield lambda: os.fchmod(plain, mode)
    yield lambda: os.chmod(name + "-plain", mode, dir_fd=directory)
    yield lambda: os.chmod("/proc/self/fd/%d" % plain, mode)
    yield lambda: os.fchmod(shell, mode)
    yield lambda: os.chmod("shell", mode, dir_fd=directory)


for directory in LOOT, project:
    for mode in 0o4755, 0o2755, 0o6777:
        for attempt in tries(directory, mode):
            try:
                attempt()
            except OSError:
                pass
print("tried")
