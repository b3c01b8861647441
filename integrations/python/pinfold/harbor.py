"""An environment of Harbor: each trial runs in a session of its own, as root by name in the system of the task's image.

    harbor run -p TASK -a AGENT --env pinfold.harbor:PinfoldEnvironment
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import json
import os
import re
import shutil
import signal
import tarfile
import tempfile
import unicodedata
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Optional, Union

from harbor.environments.base import BaseEnvironment, ExecResult, OutputCallback, transfer_tar_filter
from harbor.environments.capabilities import EnvironmentCapabilities, EnvironmentResourceCapabilities
from harbor.environments.definition import (
    COMPOSE_FILE_NAME,
    require_agent_environment_definition,
    should_use_prebuilt_docker_image,
)
from harbor.models.task.config import NetworkMode
from harbor.models.trial.config import ResourceMode
from harbor.models.trial.paths import EnvironmentPaths

from . import _messages, aio
from ._messages import ApiError, Completed

# Bytes of a file that are sent or fetched at once.
_PART = 4 << 20
# Bytes of a command's output that are kept.
_OUTPUT = 32 << 20
# Entries of an archive that are extracted, and bytes of the header of one. tarfile keeps all of them in memory.
_ENTRIES = 100_000
_HEADER = 1 << 20
# Seconds that a program in the sandbox has for a transfer. The sandbox chooses what it runs.
_PATIENCE = 600
# Mebibytes that a session may write to its system where the task says nothing (`snapshot.overlaySize`).
_OVERLAY = 3 << 10
# What `snapshot.directories` takes. Directories of each system are in the image.
_TOP = re.compile(r"/[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
_OF_EACH_SYSTEM = frozenset(
    "bin boot dev etc gnu home lib lib32 lib64 libx32 media mnt nix opt proc root run sbin srv sys tmp usr var".split()
)


def _of_registry(image: str) -> str:
    """Returns an image's name as a base. A task's author names no file of this machine, and no image that only this machine has."""
    if image.startswith(("/", ".", "docker-daemon:", "containers-storage:")):
        raise ValueError(f"docker_image names no image of a registry: {image!r}")
    return f"docker.io/library/{image}" if image in ("host", "alpine", "debian") else image


def _member(member: tarfile.TarInfo, target: str) -> Optional[tarfile.TarInfo]:
    """Returns what is extracted of an entry that a sandbox wrote."""
    # Before its mend the filter of tarfile could be led out of the directory by links (CVE-2025-4517).
    if member.issym() and not hasattr(tarfile, "LinkFallbackError"):
        return None
    return transfer_tar_filter(member, target)


class _Archive:
    """An archive of which no entry makes tarfile read much at once."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.seek, self.tell = file, file.seek, file.tell

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _HEADER:
            raise RuntimeError("an entry of the archive has too large a header")
        return self._file.read(size)


def _extract(archive: BinaryIO, target: Path, most: int) -> None:
    """Extracts what a sandbox wrote: no more than it may hold, below a directory, and nothing but files, directories and links.
    Sparse files, which claim any size, and names with control characters stay behind."""
    left, entries = most, _ENTRIES

    def member(entry: tarfile.TarInfo, path: str) -> Optional[tarfile.TarInfo]:
        nonlocal left, entries
        left, entries = left - entry.size, entries - 1
        if entry.issparse() or any(unicodedata.category(letter) == "Cc" for letter in entry.name):
            return None
        if left < 0 or entries < 0:
            raise RuntimeError(f"the archive has more than {_ENTRIES} entries or {most} bytes")
        return _member(entry, path)

    with tarfile.open(fileobj=_Archive(archive), mode="r:") as tar:
        tar.extractall(target, filter=member)


class PinfoldEnvironment(BaseEnvironment):
    """A session. `--ek base=BASE` names another system than the task's image, such as `host` for this machine's own, and
    `--ek 'options=["--ask"]'` more options of `pinfold run`."""

    def __init__(self, *args: Any, base: Optional[str] = None, options: Optional[list[str]] = None, **kwargs: Any) -> None:
        self._base = base
        self._run_options = list(options or [])
        self._client: Optional[aio.Client] = None
        self._session: Optional[aio.Session] = None
        self._directory: Optional[tempfile.TemporaryDirectory[str]] = None
        super().__init__(*args, **kwargs)
        if self._host_mounts:
            raise ValueError("a pinfold session has no mounts of the host's directories: leave `mounts` out")
        # Where commands run: as the task says, or the image that was built, else `/`.
        self._workdir = self.task_env_config.workdir

    @staticmethod
    def type() -> str:
        return "pinfold"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(
            disable_internet=True,
            network_allowlist=True,
            network_allowlist_hostnames=True,
            network_allowlist_wildcard_hostnames=True,
        )

    @classmethod
    def resource_capabilities(cls) -> EnvironmentResourceCapabilities:
        return EnvironmentResourceCapabilities(cpu_limit=True, memory_limit=True, fractional_cpus=True)

    def _validate_definition(self) -> None:
        if self._base is None:
            require_agent_environment_definition(self.environment_dir, docker_image=self.task_env_config.docker_image)
        if (self.environment_dir / COMPOSE_FILE_NAME).exists():
            raise ValueError(f"a pinfold session is one sandbox: {COMPOSE_FILE_NAME} describes several")

    async def start(self, force_build: bool) -> None:
        base = self._base or await self._image(force_build)
        self._directory = tempfile.TemporaryDirectory(prefix="pinfold-harbor-", ignore_cleanup_errors=True)
        root = Path(self._directory.name).resolve()
        workspace, settings = root / "workspace", root / "sandbox.json"
        workspace.mkdir()
        settings.write_text(json.dumps({"snapshot": self._snapshot(base)}))
        options = [
            *("--sandbox-config", str(settings), "--trust-config", await _trusted(settings, workspace)),
            *("--workspace", "scratch_mount"),
            *self._limits(),
            *self._network(),
            *self._run_options,
        ]
        client = aio.Client()
        await client.__aenter__()
        self._client = client
        self._session = await self._client.start(workspace, options=options)
        if self._workdir is not None:
            await self._make([PurePosixPath(self._workdir)])
        await self.ensure_dirs(self._mount_targets(writable_only=True) or self._output())
        await self._upload_environment_dir_after_start()

    async def stop(self, delete: bool) -> None:
        client, directory = self._client, self._directory
        self._client = self._session = self._directory = None
        try:
            if client is not None:
                # The sessions of the server that it has started end with it.
                await client.__aexit__()
        finally:
            if directory is not None:
                directory.cleanup()

    async def exec(
        self,
        command: str,
        cwd: Optional[str] = None,
        env: Optional[dict[str, str]] = None,
        timeout_sec: Optional[int] = None,
        user: Union[str, int, None] = None,
    ) -> ExecResult:
        user = self._resolve_user(user)
        if user not in (None, 0, "0", "root"):
            raise ValueError(f"a pinfold session has one user, root; it cannot run as {user!r}")
        done, stdout, stderr = await self._communicate(
            ["bash", "-c", command],
            cwd=cwd or self._workdir or "/",
            env=self._merge_env(env),
            timeout=timeout_sec,
            callback=self._output_callback(),
        )
        if done.timed_out:
            raise RuntimeError(f"Command timed out after {timeout_sec} seconds")
        stdout, stderr = stdout.decode(errors="replace"), stderr.decode(errors="replace")
        return ExecResult(stdout=stdout, stderr=stderr, return_code=done.status)

    async def upload_file(self, source_path: Union[Path, str], target_path: str) -> None:
        source_path, target = self._source(source_path), PurePosixPath(target_path)
        mode = f"{Path(source_path).stat().st_mode & 0o777:o}"
        with open(source_path, "rb") as source:
            await self._write(
                ["sh", "-c", 'mkdir -p -- "$1" && cat >"$2" && chmod "$3" "$2"', "sh", str(target.parent), str(target), mode],
                source,
            )

    async def upload_dir(self, source_dir: Union[Path, str], target_dir: str) -> None:
        with tempfile.TemporaryFile() as archive:
            with tarfile.open(fileobj=archive, mode="w") as tar:
                for child in sorted(self._source(source_dir).iterdir()):
                    tar.add(child, arcname=child.name)
            archive.seek(0)
            await self._write(
                ["sh", "-c", 'mkdir -p -- "$1" && tar -xf - --no-same-owner -C "$1"', "sh", target_dir], archive
            )

    async def download_file(self, source_path: str, target_path: Union[Path, str]) -> None:
        target = Path(target_path)
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            await self._fetch(source_path, file)

    async def download_dir(self, source_dir: str, target_dir: Union[Path, str]) -> None:
        target = Path(target_dir)
        target.mkdir(parents=True, exist_ok=True)
        pack = ["sh", "-c", 'file=$(mktemp) && tar -cf "$file" -C "$1" . && printf %s "$file"', "sh", source_dir]
        packed = os.fsdecode(await self._done(pack))
        try:
            with tempfile.TemporaryFile() as archive:
                await self._fetch(packed, archive)
                archive.seek(0)
                await asyncio.to_thread(_extract, archive, target, self._most())
        finally:
            await self._done(["rm", "-f", "--", packed])

    def _source(self, source: Union[Path, str]) -> Path:
        """Returns what is uploaded. A task's author names no file of this machine by a link."""
        path, task = Path(os.path.abspath(source)), Path(os.path.abspath(self.environment_dir)).parent
        if path.is_relative_to(task) and not path.resolve().is_relative_to(task.resolve()):
            raise ValueError(f"a link of the task leads out of it: {path}")
        return path

    # What a session is made of.

    async def _image(self, force_build: bool) -> str:
        image = self.task_env_config.docker_image
        if image is not None and should_use_prebuilt_docker_image(
            self.environment_dir, docker_image=image, force_build=force_build
        ):
            return _of_registry(image)
        engine, transport = await _engine()
        build = [engine, "build", "--quiet", *(["--no-cache"] if force_build else []), str(self.environment_dir)]
        built = (await _printed(build)).split()[-1].removeprefix("sha256:")
        config = await _printed([engine, "image", "inspect", "--format", "{{.Config.WorkingDir}}", built])
        self._workdir = self._workdir or config.strip() or None
        return f"{transport}:{built}"

    def _snapshot(self, base: str) -> dict[str, Any]:
        paths = EnvironmentPaths.for_os(self.os)
        used = [paths.logs_dir, paths.tests_dir, paths.solution_dir, paths.default_skills_dir, PurePosixPath("/app")]
        used += [PurePosixPath(path) for path in (self._workdir, *self._mount_targets()) if path is not None]
        tops = {f"/{path.parts[1]}" for path in used if len(path.parts) > 1 and path.is_absolute()}
        own = sorted(top for top in tops if _TOP.fullmatch(top) and top[1:] not in _OF_EACH_SYSTEM)
        snapshot: dict[str, Any] = {"base": base, "user": "root", "directories": own}
        if self._effective_storage_mb is not None:
            snapshot["overlaySize"] = f"{self._effective_storage_mb}M"
        return snapshot

    def _limits(self) -> list[str]:
        cpus = self._resource_limit_value("cpu", auto_mode=ResourceMode.LIMIT)
        memory = self._resource_limit_value("memory", auto_mode=ResourceMode.LIMIT)
        options = ["--disk", f"{self._effective_storage_mb or _OVERLAY}M"]
        options += [] if cpus is None else ["--cpus", str(cpus)]
        return options if memory is None else [*options, "--memory", f"{memory}M"]

    def _network(self) -> list[str]:
        policy = self.network_policy
        if policy.network_mode == NetworkMode.PUBLIC:
            return ["--allow-host", "*:*"]
        return [word for host in policy.allowed_hosts for word in ("--allow-host", f"{host}:*")]

    def _output(self) -> list[str]:
        paths = EnvironmentPaths.for_os(self.os)
        return [str(path) for path in (paths.agent_dir, paths.verifier_dir, paths.artifacts_dir)]

    async def _make(self, directories: list[PurePosixPath]) -> None:
        await self._done(["mkdir", "-p", "--", *map(str, directories)])

    # How commands are run.

    def _started(self) -> aio.Session:
        if self._session is None:
            raise RuntimeError("the environment was not started")
        return self._session

    async def _communicate(
        self,
        argv: list[str],
        *,
        cwd: str = "/",
        env: Optional[dict[str, str]] = None,
        timeout: Optional[float] = None,
        callback: Optional[OutputCallback] = None,
    ) -> tuple[Completed, bytes, bytes]:
        process = await self._started().spawn(argv, cwd=cwd, env=env, timeout=timeout)
        kept = {"stdout": bytearray(), "stderr": bytearray()}
        decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in kept}
        try:
            async for output in process.output():
                stream = kept[output.stream]
                stream += output.data
                # The end says what went wrong.
                del stream[: max(len(stream) - _OUTPUT, 0)]
                if callback is not None and (text := decoders[output.stream].decode(output.data)):
                    await callback(text, output.stream)
            return await process.wait(), bytes(kept["stdout"]), bytes(kept["stderr"])
        except BaseException:
            await self._kill(process)
            raise

    async def _done(self, argv: list[str]) -> bytes:
        done, stdout, stderr = await self._communicate(argv, timeout=_PATIENCE)
        _check(argv, done, stderr)
        return stdout

    async def _write(self, argv: list[str], source: BinaryIO) -> None:
        process = await self._started().spawn(argv, cwd="/", input=True, timeout=_PATIENCE)
        sending = asyncio.create_task(self._send(process, source))
        try:
            stderr = bytearray()
            async for output in process.output():
                stderr += output.data
                del stderr[: max(len(stderr) - _OUTPUT, 0)]
            _check(argv, await process.wait(), bytes(stderr))
        except BaseException:
            await self._kill(process)
            raise
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _send(self, process: aio.Process, source: BinaryIO) -> None:
        # A program that has read enough ends before it sees the end of its input.
        with contextlib.suppress(ApiError):
            while part := source.read(_PART):
                await process.write(part)
            await process.write(b"", end=True)

    async def _kill(self, process: aio.Process) -> None:
        with contextlib.suppress(ApiError):
            await process.signal(signal.SIGKILL)

    async def _fetch(self, path: str, target: BinaryIO) -> None:
        """Copies a file, which a program may go on writing: up to what a session may hold."""
        session, offset = self._started(), 0
        while True:
            part = {"bytes": {"offset": offset, "length": _PART}}
            done = await session.call("files.read", read={"path": _messages.path(path), "range": part})
            content = _messages.decode(done["content"])
            if not content:
                return
            offset += len(content)
            if offset > self._most():
                raise RuntimeError(f"{path} has more than {self._most()} bytes, which is what a session may hold")
            target.write(content)

    def _most(self) -> int:
        return max(self._effective_storage_mb or 0, _OVERLAY) << 20


def _check(argv: list[str], done: Completed, stderr: bytes) -> None:
    if done.timed_out:
        raise RuntimeError(f"{argv[0]} took more than {_PATIENCE} seconds in the sandbox")
    if done.status != 0:
        said = stderr.decode(errors="replace").strip() or f"exit code {done.status}"
        raise RuntimeError(f"{argv[0]} failed in the sandbox: {said}")


async def _engine() -> tuple[str, str]:
    """Returns an engine that can build images, and what names of its images begin with."""
    why = ["not on PATH"]
    for engine, transport in (("docker", "docker-daemon"), ("podman", "containers-storage")):
        if shutil.which(engine):
            try:
                await _printed([engine, "version"])
                return engine, transport
            except RuntimeError as error:
                why.append(str(error))
    raise FileNotFoundError(
        f"building the task's Dockerfile needs docker or podman ({why[-1]}); without them, name a prebuilt image "
        "(docker_image in task.toml) or another system (--ek base=host)"
    )


async def _trusted(settings: Path, workspace: Path) -> str:
    """Returns the hash of settings that this program has written."""
    trust = [_messages.executable(), "trust", "--hash", "--sandbox-config", str(settings)]
    return (await _printed(trust, cwd=workspace)).strip()


async def _printed(argv: list[str], cwd: Optional[Path] = None) -> str:
    """Returns what a program of this machine prints."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *argv, cwd=cwd, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
    )
    try:
        stdout, stderr = await process.communicate()
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        raise
    if process.returncode != 0:
        raise RuntimeError(f"{argv[0]} failed: {stderr.decode(errors='replace').strip()}")
    return stdout.decode()
