"""Inspect's sandbox environment `pinfold`: each sample runs in a session of its own.

Sessions are those of one `pinfold serve --stdio` for each sample, and end with it.
"""

from __future__ import annotations

import os
import posixpath
import tempfile
from typing import Any, Awaitable, Literal, Optional, TypeVar, Union, overload

from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxEnvironment,
    SandboxEnvironmentConfigType,
    SandboxEnvironmentLimits,
    SandboxUserUnsupportedError,
    sandboxenv,
)

from . import aio
from ._messages import ApiError

T = TypeVar("T")

_ERRORS = {
    "escapes": FileNotFoundError,
    "not-found": FileNotFoundError,
    "is-directory": IsADirectoryError,
    "not-directory": NotADirectoryError,
    "denied": PermissionError,
}


@sandboxenv(name="pinfold")
class PinfoldSandboxEnvironment(SandboxEnvironment):
    """A session. The configuration, if any, is the path of its `sandbox.json`."""

    def __init__(
        self, client: aio.Client, session: aio.Session, directory: tempfile.TemporaryDirectory[str]
    ) -> None:
        super().__init__()
        self._client = client
        self._session = session
        self._directory = directory

    @classmethod
    async def sample_init(
        cls,
        task_name: str,
        config: Optional[SandboxEnvironmentConfigType],
        metadata: dict[str, str],
    ) -> dict[str, SandboxEnvironment]:
        options = [] if config is None else ["--sandbox-config", os.path.abspath(str(config))]
        directory = tempfile.TemporaryDirectory(prefix="pinfold-inspect-", ignore_cleanup_errors=True)
        client = aio.Client()
        await client.__aenter__()
        try:
            session = await client.start(os.path.realpath(directory.name), options=options)
        except BaseException:
            await client.__aexit__()
            raise
        return {"default": cls(client, session, directory)}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: Optional[SandboxEnvironmentConfigType],
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        for environment in environments.values():
            sandbox = environment.as_type(cls)
            await sandbox._client.__aexit__()
            sandbox._directory.cleanup()

    async def exec(
        self,
        cmd: list[str],
        input: Optional[Union[str, bytes]] = None,
        cwd: Optional[str] = None,
        env: Optional[dict[str, str]] = None,
        user: Optional[str] = None,
        timeout: Optional[int] = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        if user is not None:
            raise SandboxUserUnsupportedError(f"a pinfold session has one user; it cannot run as {user!r}")
        if cwd is not None:
            cwd = posixpath.join(os.path.realpath(self._directory.name), cwd)
        try:
            done = await self._session.run(
                cmd,
                input=input or "",
                cwd=cwd,
                env=env,
                timeout=timeout,
                output=SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE,
            )
        except ApiError as error:
            said = str(error)
            if said.startswith("command not found inside"):
                return ExecResult(False, 127, "", said)
            if said.startswith("cannot execute") and "Permission denied" in said:
                raise PermissionError(said) from error
            raise
        if done.timed_out:
            raise TimeoutError(f"{cmd[0]} did not end within {timeout} s")
        stdout, stderr = (output.decode(errors="replace") for output in (done.stdout, done.stderr))
        # A shell's status for a program that it may not execute.
        if done.status == 126 and "permission denied" in stderr.lower():
            raise PermissionError(stderr)
        return ExecResult(done.status == 0, done.status, stdout, stderr)

    async def write_file(self, file: str, contents: Union[str, bytes]) -> None:
        await _file(self._session.write_file(file, contents))

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> Union[str, bytes]:
        most = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
        content = await _file(self._session.read_file(file, most=most + 1))
        if len(content) > most:
            raise OutputLimitExceededError(
                limit_str=SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR,
                truncated_output=None,
            )
        return content.decode() if text else content


async def _file(work: Awaitable[T]) -> T:
    try:
        return await work
    except ApiError as error:
        kind: Any = _ERRORS.get(error.kind or "", RuntimeError)
        raise kind(str(error)) from error
