"""What is said to the local API and what it answers, as values of Python."""

from __future__ import annotations

import base64
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional, Union

# One message has 96 MiB at most.
LINE = 96 << 20
# Bytes of one read or write, which base64 makes a third longer.
PART = 32 << 20
# Bytes of a command's output that wait to be read, and what each piece of it counts at least.
UNREAD = 64 << 20
PIECE = 1 << 10

Path = Union[str, "os.PathLike[str]"]


class PinfoldError(Exception):
    """Pinfold cannot be asked, or has ended."""


class ApiError(PinfoldError):
    """A request that pinfold refused."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        data = error.get("data") or {}
        self.hint: Optional[str] = data.get("hint")
        """What to do about it."""
        self.kind: Optional[str] = data.get("kind")
        """What is wrong with a file, such as `not-found`, `escapes` or `denied`."""
        super().__init__(error["message"] + (f" ({self.hint})" if self.hint else ""))


@dataclass(frozen=True)
class ExecLimits:
    """What a command may use, with all that it starts."""

    memory: Optional[int] = None
    """Bytes."""
    pids: Optional[int] = None
    milli_cpus: Optional[int] = None
    """Thousandths of a CPU."""


@dataclass(frozen=True)
class Completed:
    """A command that has ended."""

    status: int
    """Its exit status, or 128 and the number of the signal that ended it."""
    stdout: bytes
    stderr: bytes
    timed_out: bool
    limit: Optional[str]
    """The limit that ended it: `timeout`, `memory` or `pids`."""
    dropped: int
    """Bytes of output that are not here, since there were more than were asked for."""


@dataclass(frozen=True)
class Output:
    """What a command wrote."""

    stream: str
    """`stdout` or `stderr`."""
    data: bytes


@dataclass(frozen=True)
class Entry:
    """What is in a directory."""

    name: bytes
    """A name, or a path below the directory that was searched."""
    kind: str
    """`file`, `directory`, `link` or `special`."""
    size: Optional[int]


def executable() -> str:
    """Returns the program: the one that `PINFOLD` names, that of this environment, or the one on `PATH`."""
    named = os.environ.get("PINFOLD")
    if named:
        return named
    here = os.path.join(os.path.dirname(sys.executable), "pinfold")
    found = here if os.access(here, os.X_OK) else shutil.which("pinfold")
    if found is None:
        raise PinfoldError("there is no program pinfold on PATH; set PINFOLD to its path")
    return found


def encode(content: Union[str, bytes]) -> Any:
    data = content.encode("utf-8", "surrogateescape") if isinstance(content, str) else bytes(content)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def decode(content: Any) -> bytes:
    return content.encode() if isinstance(content, str) else base64.b64decode(content["base64"])


def path(path: Path) -> Any:
    return encode(os.fsencode(path))


def program(
    argv: Sequence[str],
    cwd: Optional[Path],
    env: Optional[Mapping[str, str]],
    timeout: Optional[float],
    limits: Optional[ExecLimits],
) -> dict[str, Any]:
    asked: dict[str, Any] = {"argv": list(argv), "env": dict(env or {})}
    if cwd is not None:
        asked["cwd"] = os.fspath(cwd)
    if timeout is not None:
        asked["timeoutMs"] = max(1, round(timeout * 1000))
    if limits is not None:
        named = {"memory": limits.memory, "pids": limits.pids, "milliCpus": limits.milli_cpus}
        asked["limits"] = {name: value for name, value in named.items() if value is not None}
    return asked


def completed(ended: Mapping[str, Any], stdout: bytes, stderr: bytes, dropped: int) -> Completed:
    return Completed(ended["status"], stdout, stderr, ended["timedOut"], ended.get("limit"), dropped)


def entries(listed: Sequence[Mapping[str, Any]]) -> list[Entry]:
    return [Entry(decode(entry["name"]), entry["kind"], entry.get("size")) for entry in listed]
