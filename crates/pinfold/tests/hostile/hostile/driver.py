"""Runs attempts, each in a process of its own, and prints one line of JSON for each.

An attempt returns what it won (a breach), or raises: OSError and Refused mean that it was
refused, anything else that the attempt itself is broken. The same file runs inside, where
everything must be refused, and outside, where what the caller may do must work: that is the
control which shows that the probe works at all.
"""

import ctypes
import errno
import glob
import json
import os
import select
import signal
import subprocess
import sys
import time

LIBC = ctypes.CDLL(None, use_errno=True)
ATTEMPTS = []
# At most this long for an attempt: one without an answer then proves nothing. An emulated machine takes half a minute
# to start a debugger.
PATIENCE = 120.0


class Refused(Exception):
    """The attempt won nothing."""


class Host:
    """What lies outside, as the test that made it says."""

    def __init__(self, facts):
        self.__dict__.update(facts)


def attempt(category, name, outside="works"):
    """Registers an attempt. `outside`: "works" where it must succeed without a boundary,
    "unsaid" where that depends on the machine or the user, "never" where it must not be tried."""

    def register(function):
        ATTEMPTS.append((category, name, outside, function))
        return function

    return register


def each(category, name, items, outside="works"):
    """Registers one attempt for each item; the function takes the host and the item, and
    `outside` may be a function of the item."""

    def register(function):
        for item in items:
            label = name.format(item[0] if isinstance(item, tuple) else item)
            said = outside(item) if callable(outside) else outside
            ATTEMPTS.append((category, label, said, lambda host, item=item: function(host, item)))
        return function

    return register


def call(name, *args):
    """A function of libc; raises OSError."""
    result = getattr(LIBC, name)(*args)
    if result == -1:
        raise OSError(ctypes.get_errno(), name)
    return result


def syscall(call, *args):
    """A system call by name (NUMBERS, which the test puts before this file) or by number; raises OSError."""
    number = NUMBERS.get(call) if isinstance(call, str) else call
    if number is None:
        raise Refused(f"this processor has no call {call}")
    LIBC.syscall.restype = ctypes.c_long
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    result = LIBC.syscall(ctypes.c_long(number), *words)
    if result == -1:
        raise OSError(ctypes.get_errno(), f"system call {call}")
    return result


def shell(script):
    """A shell script: 0 is a breach, 126 and 127 are broken, the rest is a refusal."""
    done = subprocess.run(
        ["sh", "-c", script], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    if done.returncode == 0:
        return done.stdout.strip() or "exit status 0"
    if done.returncode in (126, 127):
        raise RuntimeError(done.stderr)
    raise Refused(done.stderr.strip())


def read(path, size=4096):
    """The beginning of a file."""
    with open(path, "rb") as file:
        return file.read(size)


def pids():
    """Every process that can be seen."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def short(value):
    return repr(value)[:160]


def judge(function, host):
    try:
        won = function(host)
        return "breach", short(won)
    except Refused as refusal:
        return "refused", str(refusal)
    except subprocess.TimeoutExpired:
        return "broken", "no answer in time"
    except OSError as error:
        return "refused", errno.errorcode.get(error.errno, str(error))
    except BaseException as error:  # pylint: disable=broad-except
        return "broken", f"{type(error).__name__}: {error}"


def wait(pid, reader):
    """What the child wrote, or how it died."""
    chunks = []
    deadline = time.monotonic() + PATIENCE
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([reader], [], [], left)[0]:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return ["broken", "no answer in time"]
        chunk = os.read(reader, 65536)
        if not chunk:
            break
        chunks.append(chunk)
    _, status = os.waitpid(pid, 0)
    if chunks:
        return json.loads(b"".join(chunks))
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGSYS:
        return ["refused", "SIGSYS"]
    return ["broken", f"ended with wait status {status}"]


def run(function, host):
    """Runs one attempt in a child that may lose everything."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        answer = judge(function, host)
        os.write(writer, json.dumps(answer).encode())
        os._exit(0)
    os.close(writer)
    answer = wait(pid, reader)
    os.close(reader)
    return answer


def main(facts):
    with open(facts, encoding="utf-8") as file:
        host = Host(json.load(file))
    for category, name, outside, function in ATTEMPTS:
        if host.outside and outside == "never":
            continue
        started = time.monotonic()
        outcome, detail = run(function, host)
        line = {
            "category": category,
            "name": name,
            "outside": outside,
            "outcome": outcome,
            "detail": detail,
            "milliseconds": round((time.monotonic() - started) * 1000),
        }
        print(json.dumps(line), flush=True)
