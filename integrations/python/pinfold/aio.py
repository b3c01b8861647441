"""The local API for asyncio.

async with pinfold.aio.Client() as client, await client.start("/home/me/src/app") as session:
    done = await session.run(["make", "test"])
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Optional, Union

from . import _messages
from ._messages import ApiError, Completed, Entry, ExecLimits, Output, Path, PinfoldError

_ENDED = "pinfold serve has ended"


class Client:
    """A connection: to `pinfold serve --stdio`, started for it, whose sessions end with it; or by `socket` to a server that runs."""

    def __init__(self, *, program: Optional[str] = None, socket: Optional[Path] = None) -> None:
        self._program = program
        self._socket = socket
        self._server: Optional[asyncio.subprocess.Process] = None
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._processes: dict[int, Process] = {}
        # What came for a command whose start is not answered yet here.
        self._early: dict[int, list[Mapping[str, Any]]] = {}
        # Commands that nobody waits for, since their start was taken back.
        self._abandoned: set[int] = set()

    async def __aenter__(self) -> "Client":
        if self._socket is not None:
            connection = await asyncio.open_unix_connection(os.fspath(self._socket), limit=_messages.LINE)
            reader, self._writer = connection
        else:
            pipe = asyncio.subprocess.PIPE
            self._server = await asyncio.create_subprocess_exec(
                self._program or _messages.executable(),
                "serve",
                "--stdio",
                stdin=pipe,
                stdout=pipe,
                limit=_messages.LINE,
            )
            assert self._server.stdin is not None and self._server.stdout is not None
            reader, self._writer = self._server.stdout, self._server.stdin
        self._reading = asyncio.create_task(self._read(reader))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()
        if self._server is not None:
            await self._server.wait()
        await self._reading

    async def call(self, method: str, **params: Any) -> Any:
        """Calls a method of the API by its name (`pinfold serve --schema`), and returns its result."""
        number = next(self._ids)
        if self._reading.done():
            raise PinfoldError(_ENDED)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._send(id=number, method=method, params=params)
            await self._writer.drain()
            return await answer
        except ConnectionError as error:
            self._waiting.pop(number, None)
            raise PinfoldError(_ENDED) from error
        except asyncio.CancelledError:
            if number in self._waiting:
                # The answer comes all the same.
                answer.cancel()
                self._send(method="cancel", params={"request": number})
            elif answer.done() and not answer.cancelled() and answer.exception() is None:
                self._abandon(answer.result())
            raise

    def _send(self, **message: Any) -> None:
        if not self._writer.is_closing():
            self._writer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def _abandon(self, result: Any) -> None:
        """Ends a command that nobody knows of."""
        if not isinstance(result, dict) or "exec" not in result:
            return
        self._early.pop(result["exec"], None)
        self._abandoned.add(result["exec"])
        killed = {"exec": result["exec"], "signal": int(signal.SIGKILL)}
        self._send(id=next(self._ids), method="exec.signal", params=killed)

    async def start(
        self, workspace: Path, *, options: Sequence[str] = (), name: Optional[str] = None, detached: bool = False
    ) -> "Session":
        """Starts a session on a directory, with options of `pinfold run`."""
        asked: dict[str, Any] = {"workspace": os.path.abspath(workspace), "options": list(options)}
        if name is not None:
            asked["name"] = name
        if detached:
            asked["detached"] = True
        started = await self.call("session.start", **asked)
        return Session(self, started["session"], started["boundary"], started["notes"])

    async def sessions(self) -> dict[str, Optional[str]]:
        """Returns the ids of live sessions, and their names."""
        listed = await self.call("session.list")
        return {each["session"]: each.get("name") for each in listed["sessions"]}

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                message = json.loads(line)
                if "method" in message:
                    self._notice(message["method"], message.get("params") or {})
                else:
                    self._answer(message)
        except ConnectionError:
            # The same as its end.
            pass
        finally:
            error = PinfoldError(_ENDED)
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(error)
            for process in self._processes.values():
                process._end(error)

    def _answer(self, message: Mapping[str, Any]) -> None:
        answer = self._waiting.pop(message.get("id", 0), None)
        if answer is None or answer.done():
            if answer is not None:
                self._abandon(message.get("result"))
            return
        if "error" in message:
            answer.set_exception(ApiError(message["error"]))
        else:
            answer.set_result(message["result"])

    def _notice(self, method: str, params: Mapping[str, Any]) -> None:
        if method not in ("exec.output", "exec.exit"):
            return
        if params["exec"] in self._abandoned:
            if method == "exec.exit":
                self._abandoned.remove(params["exec"])
            return
        process = self._processes.get(params["exec"])
        if process is None:
            self._early.setdefault(params["exec"], []).append({"method": method, **params})
        else:
            process._notice(method, params)

    def _adopt(self, process: "Process") -> None:
        self._processes[process._exec] = process
        for early in self._early.pop(process._exec, []):
            process._notice(early["method"], early)


class Session:
    """A sandbox. It ends at the end of a `with` block."""

    def __init__(self, client: Client, id: str, boundary: str, notes: Sequence[str]) -> None:
        self._client = client
        self.id = id
        self.boundary = boundary
        self.notes = list(notes)
        """What its user should know of it."""

    async def __aenter__(self) -> "Session":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self, grace: Optional[float] = None) -> None:
        """Ends it. Programs have so many seconds to end by themselves."""
        asked = {} if grace is None else {"graceMs": round(grace * 1000)}
        await self.call("session.stop", **asked)

    async def call(self, method: str, **params: Any) -> Any:
        """Calls a method of the API for this session."""
        return await self._client.call(method, session=self.id, **params)

    async def run(
        self,
        argv: Sequence[str],
        *,
        input: Union[str, bytes] = b"",
        cwd: Optional[Path] = None,
        env: Optional[Mapping[str, str]] = None,
        timeout: Optional[float] = None,
        limits: Optional[ExecLimits] = None,
        output: Optional[int] = None,
    ) -> Completed:
        """Runs a command to its end. Of its output the last `output` bytes are kept, a mebibyte by default."""
        program = _messages.program(argv, cwd, env, timeout, limits)
        asked: dict[str, Any] = {"program": program, "input": _messages.encode(input)}
        if output is not None:
            asked["limit"] = output
        done = await self.call("exec.run", **asked)
        stdout, stderr = (_messages.decode(done[name]) for name in ("stdout", "stderr"))
        return _messages.completed(done["ended"], stdout, stderr, done["dropped"])

    async def spawn(
        self,
        argv: Sequence[str],
        *,
        input: bool = False,
        cwd: Optional[Path] = None,
        env: Optional[Mapping[str, str]] = None,
        timeout: Optional[float] = None,
        limits: Optional[ExecLimits] = None,
        terminal: Optional[tuple[int, int]] = None,
    ) -> "Process":
        """Starts a command, whose output comes as it is written. `terminal` is a size in rows and columns."""
        program = _messages.program(argv, cwd, env, timeout, limits)
        asked: dict[str, Any] = {"program": program, "input": input}
        if terminal is not None:
            asked["terminal"] = {"rows": terminal[0], "columns": terminal[1]}
        started = await self.call("exec.start", **asked)
        process = Process(self._client, started["exec"])
        self._client._adopt(process)
        return process

    async def read_file(self, path: Path, *, most: Optional[int] = None) -> bytes:
        """Returns the bytes of a file; at most so many."""
        content = bytearray()
        while True:
            length = _messages.PART if most is None else min(_messages.PART, most - len(content))
            if length == 0:
                return bytes(content)
            part = {"bytes": {"offset": len(content), "length": length}}
            done = await self.call("files.read", read={"path": _messages.path(path), "range": part})
            read = _messages.decode(done["content"])
            if not read:
                return bytes(content)
            content += read

    async def write_file(
        self, path: Path, content: Union[str, bytes], *, parents: bool = True, new: bool = False
    ) -> None:
        """Writes a file whole; `new` refuses one that is there."""
        write = {"path": _messages.path(path), "parents": parents, "new": new}
        await self.call("files.write", write=write, content=_messages.encode(content))

    async def list_directory(self, path: Path = ".") -> list[Entry]:
        """Returns what is in a directory."""
        done = await self.call("files.list", list={"path": _messages.path(path)})
        return _messages.entries(done["entries"])

    async def find(self, pattern: str, path: Path = ".") -> list[Entry]:
        """Returns what a glob matches below a directory, without what git ignores."""
        done = await self.call("files.find", find={"pattern": pattern, "path": _messages.path(path)})
        return _messages.entries(done["entries"])


class Process:
    """A command that runs."""

    def __init__(self, client: Client, exec: int) -> None:
        self._client = client
        self._exec = exec
        self._queue: asyncio.Queue[Optional[Output]] = asyncio.Queue()
        # What is in it, what was dropped of it since it was last read, and in all.
        self._unread = 0
        self._lost = 0
        self._dropped = 0
        self._ended: asyncio.Future[Completed] = asyncio.get_running_loop().create_future()

    async def output(self) -> AsyncIterator[Output]:
        """Yields what it writes, until it has ended. At most 64 MiB wait to be read; where older output was dropped for
        newer, it is an error, after which `output` goes on with what is left."""
        while True:
            if self._lost:
                lost, self._lost = self._lost, 0
                raise PinfoldError(f"{lost} bytes of output were dropped, which nobody had read")
            output = await self._queue.get()
            if output is None:
                self._queue.put_nowait(None)
                return
            self._unread -= self._size(output)
            yield output

    @staticmethod
    def _size(output: Output) -> int:
        return max(len(output.data), _messages.PIECE)

    def _keep(self, output: Output) -> None:
        self._queue.put_nowait(output)
        self._unread += self._size(output)
        while self._unread > _messages.UNREAD and (oldest := self._queue.get_nowait()) is not None:
            self._unread -= self._size(oldest)
            self._lost += len(oldest.data)
            self._dropped += len(oldest.data)

    async def wait(self) -> Completed:
        """Returns how it ended. Output is what `output` yields."""
        return await asyncio.shield(self._ended)

    async def write(self, data: Union[str, bytes], *, end: bool = False) -> None:
        """Writes to its input, which `end` closes."""
        await self._client.call("exec.write", exec=self._exec, data=_messages.encode(data), end=end)

    async def signal(self, number: int) -> None:
        """Sends it a signal, with all that it has started."""
        await self._client.call("exec.signal", exec=self._exec, signal=number)

    async def resize(self, rows: int, columns: int) -> None:
        """Changes the size of its terminal."""
        await self._client.call("exec.resize", exec=self._exec, terminal={"rows": rows, "columns": columns})

    def _notice(self, method: str, params: Mapping[str, Any]) -> None:
        if method == "exec.output":
            self._keep(Output(params["stream"], _messages.decode(params["data"])))
            return
        self._client._processes.pop(self._exec, None)
        if params.get("ended") is None:
            self._end(PinfoldError(params.get("error") or "the command is gone"))
        elif not self._ended.done():
            self._ended.set_result(_messages.completed(params["ended"], b"", b"", self._dropped))
            self._queue.put_nowait(None)

    def _end(self, error: PinfoldError) -> None:
        if not self._ended.done():
            self._ended.set_exception(error)
            # Nobody may be waiting.
            self._ended.exception()
            self._queue.put_nowait(None)
