"""Inspect's sandbox environment `pinfold`: each sample runs in a pinfold session of its own.

It speaks the local API (docs/guides/api.md) with one `pinfold serve --stdio` for each sample, whose sessions end with it.
"""

import asyncio
import base64
import itertools
import json
import os
import posixpath
import tempfile
from collections.abc import Mapping
from typing import Any, Literal, Union, overload

from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxEnvironment,
    SandboxEnvironmentConfigType,
    SandboxEnvironmentLimits,
    SandboxUserUnsupportedError,
    sandboxenv,
)

# One message of the API has 96 MiB at most.
_LINE = 96 << 20
# Bytes of one read, which base64 makes a third longer.
_PART = 32 << 20
_ERRORS = {
    "escapes": FileNotFoundError,
    "not-found": FileNotFoundError,
    "is-directory": IsADirectoryError,
    "not-directory": NotADirectoryError,
    "denied": PermissionError,
}


class ApiError(RuntimeError):
    """A request that pinfold refused."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        data = error.get("data") or {}
        hint = f" ({data['hint']})" if "hint" in data else ""
        super().__init__(error["message"] + hint)
        self.kind = data.get("kind")


class Client:
    """One connection to a server of its own."""

    def __init__(self, server: asyncio.subprocess.Process) -> None:
        self._server = server
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def start(cls) -> "Client":
        pipe = asyncio.subprocess.PIPE
        program = os.environ.get("PINFOLD", "pinfold")
        return cls(
            await asyncio.create_subprocess_exec(
                program, "serve", "--stdio", stdin=pipe, stdout=pipe, limit=_LINE
            )
        )

    async def call(self, method: str, **params: Any) -> Any:
        assert self._server.stdin is not None
        number = next(self._ids)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self._server.stdin.write(json.dumps(message).encode() + b"\n")
        await self._server.stdin.drain()
        return await answer

    async def close(self) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()
        await self._server.wait()
        await self._reader

    async def _read(self) -> None:
        assert self._server.stdout is not None
        while line := await self._server.stdout.readline():
            message = json.loads(line)
            answer = self._waiting.pop(message.get("id"), None)
            if answer is None or answer.done():
                continue
            if "error" in message:
                answer.set_exception(ApiError(message["error"]))
            else:
                answer.set_result(message["result"])
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(ConnectionError("pinfold serve has ended"))


@sandboxenv(name="pinfold")
class PinfoldSandboxEnvironment(SandboxEnvironment):
    """A session. The configuration, if any, is the path of its `sandbox.json`."""

    def __init__(self, client: Client, session: str, directory: tempfile.TemporaryDirectory[str]) -> None:
        super().__init__()
        self._client = client
        self._session = session
        self._directory = directory

    @classmethod
    async def sample_init(
        cls,
        task_name: str,
        config: SandboxEnvironmentConfigType | None,
        metadata: dict[str, str],
    ) -> dict[str, SandboxEnvironment]:
        options = [] if config is None else ["--sandbox-config", os.path.abspath(str(config))]
        directory = tempfile.TemporaryDirectory(prefix="pinfold-inspect-", ignore_cleanup_errors=True)
        workspace = os.path.realpath(directory.name)
        client = await Client.start()
        try:
            started = await client.call("session.start", workspace=workspace, options=options)
        except BaseException:
            await client.close()
            raise
        return {"default": cls(client, started["session"], directory)}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: SandboxEnvironmentConfigType | None,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        for environment in environments.values():
            sandbox = environment.as_type(cls)
            await sandbox._client.close()
            sandbox._directory.cleanup()

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        if user is not None:
            raise SandboxUserUnsupportedError(f"a pinfold session has one user; it cannot run as {user!r}")
        program: dict[str, Any] = {"argv": cmd, "env": env or {}}
        if cwd is not None:
            program["cwd"] = posixpath.join(os.path.realpath(self._directory.name), cwd)
        if timeout is not None:
            program["timeoutMs"] = timeout * 1000
        try:
            done = await self._client.call(
                "exec.run",
                session=self._session,
                program=program,
                input=_encode(input or ""),
                limit=SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE,
            )
        except ApiError as error:
            said = str(error)
            if said.startswith("command not found inside"):
                return ExecResult(False, 127, "", said)
            if said.startswith("cannot execute") and "Permission denied" in said:
                raise PermissionError(said) from error
            raise
        ended = done["ended"]
        if ended["timedOut"]:
            raise TimeoutError(f"{cmd[0]} did not end within {timeout} s")
        stdout, stderr = (_decode(done[name]).decode(errors="replace") for name in ("stdout", "stderr"))
        # A shell's status for a program that it may not execute.
        if ended["status"] == 126 and "permission denied" in stderr.lower():
            raise PermissionError(stderr)
        return ExecResult(ended["status"] == 0, ended["status"], stdout, stderr)

    async def write_file(self, file: str, contents: str | bytes) -> None:
        await self._file(
            "files.write",
            file,
            write={"path": file, "parents": True},
            content=_encode(contents),
        )

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> Union[str, bytes]:
        most = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
        content = b""
        while True:
            part = {"bytes": {"offset": len(content), "length": min(_PART, most + 1 - len(content))}}
            done = await self._file("files.read", file, read={"path": file, "range": part})
            read = _decode(done["content"])
            content += read
            if len(content) > most:
                raise OutputLimitExceededError(
                    limit_str=SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR,
                    truncated_output=None,
                )
            if not read:
                return content.decode() if text else content

    async def _file(self, method: str, file: str, **params: Any) -> Any:
        try:
            return await self._client.call(method, session=self._session, **params)
        except ApiError as error:
            raise _ERRORS.get(error.kind or "", RuntimeError)(str(error)) from error


def _encode(content: str | bytes) -> Any:
    data = content.encode() if isinstance(content, str) else content
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _decode(content: Any) -> bytes:
    return content.encode() if isinstance(content, str) else base64.b64decode(content["base64"])
