"""The local API for programs without asyncio: that of `pinfold.aio` on a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from typing import Any, Optional, TypeVar, Union

from . import aio
from ._messages import Completed, Entry, ExecLimits, Output, Path, PinfoldError

T = TypeVar("T")


class Client:
    """A connection: to `pinfold serve --stdio`, started for it, whose sessions end with it; or by `socket` to a server that runs.

    Several threads may use it at once.
    """

    def __init__(self, *, program: Optional[str] = None, socket: Optional[Path] = None) -> None:
        self._client = aio.Client(program=program, socket=socket)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="pinfold", daemon=True)
        # Held while work is handed to the loop, which takes no more when it is to end.
        self._lock = threading.Lock()
        self._is_closed = False

    def __enter__(self) -> "Client":
        self._thread.start()
        try:
            self._wait(self._client.__aenter__())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._wait(self._client.__aexit__())
        finally:
            self._end()

    def _end(self) -> None:
        with self._lock:
            self._is_closed = True
        asyncio.run_coroutine_threadsafe(self._cancel_all(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @staticmethod
    async def _cancel_all() -> None:
        """Lets no thread wait for a loop that has ended."""
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        with self._lock:
            if self._is_closed:
                work.close()
                raise PinfoldError("this client is closed")
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except CancelledError as error:
            raise PinfoldError("this client is closed") from error
        except BaseException:
            future.cancel()
            raise

    def call(self, method: str, **params: Any) -> Any:
        """Calls a method of the API by its name (`pinfold serve --schema`), and returns its result."""
        return self._wait(self._client.call(method, **params))

    def start(
        self, workspace: Path, *, options: Sequence[str] = (), name: Optional[str] = None, detached: bool = False
    ) -> "Session":
        """Starts a session on a directory, with options of `pinfold run`."""
        started = self._client.start(workspace, options=options, name=name, detached=detached)
        return Session(self, self._wait(started))

    def sessions(self) -> dict[str, Optional[str]]:
        """Returns the ids of live sessions, and their names."""
        return self._wait(self._client.sessions())


class Session:
    """A sandbox. It ends at the end of a `with` block."""

    def __init__(self, client: Client, session: aio.Session) -> None:
        self._client = client
        self._session = session
        self.id = session.id
        self.boundary = session.boundary
        self.notes = session.notes
        """What its user should know of it."""

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self, grace: Optional[float] = None) -> None:
        """Ends it. Programs have so many seconds to end by themselves."""
        self._client._wait(self._session.stop(grace))

    def call(self, method: str, **params: Any) -> Any:
        """Calls a method of the API for this session."""
        return self._client._wait(self._session.call(method, **params))

    def run(
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
        run = self._session.run(
            argv, input=input, cwd=cwd, env=env, timeout=timeout, limits=limits, output=output
        )
        return self._client._wait(run)

    def spawn(
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
        started = self._session.spawn(
            argv, input=input, cwd=cwd, env=env, timeout=timeout, limits=limits, terminal=terminal
        )
        return Process(self._client, self._client._wait(started))

    def read_file(self, path: Path, *, most: Optional[int] = None) -> bytes:
        """Returns the bytes of a file; at most so many."""
        return self._client._wait(self._session.read_file(path, most=most))

    def write_file(
        self, path: Path, content: Union[str, bytes], *, parents: bool = True, new: bool = False
    ) -> None:
        """Writes a file whole; `new` refuses one that is there."""
        self._client._wait(self._session.write_file(path, content, parents=parents, new=new))

    def list_directory(self, path: Path = ".") -> list[Entry]:
        """Returns what is in a directory."""
        return self._client._wait(self._session.list_directory(path))

    def find(self, pattern: str, path: Path = ".") -> list[Entry]:
        """Returns what a glob matches below a directory, without what git ignores."""
        return self._client._wait(self._session.find(pattern, path))


class Process:
    """A command that runs."""

    def __init__(self, client: Client, process: aio.Process) -> None:
        self._client = client
        self._process = process
        self._output = process.output()

    def output(self) -> Iterator[Output]:
        """Yields what it writes, until it has ended."""
        while (output := self._client._wait(self._next())) is not None:
            yield output

    async def _next(self) -> Optional[Output]:
        try:
            return await self._output.__anext__()
        except StopAsyncIteration:
            return None
        except PinfoldError:
            self._output = self._process.output()
            raise

    def wait(self) -> Completed:
        """Returns how it ended. Output is what `output` yields."""
        return self._client._wait(self._process.wait())

    def write(self, data: Union[str, bytes], *, end: bool = False) -> None:
        """Writes to its input, which `end` closes."""
        self._client._wait(self._process.write(data, end=end))

    def signal(self, number: int) -> None:
        """Sends it a signal, with all that it has started."""
        self._client._wait(self._process.signal(number))

    def resize(self, rows: int, columns: int) -> None:
        """Changes the size of its terminal."""
        self._client._wait(self._process.resize(rows, columns))
