"""The environment of Harbor: trials of the real one, and what a hostile sandbox leaves for its host."""

import asyncio
import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
from harbor.models.task.config import EnvironmentConfig, NetworkMode, NetworkPolicy
from harbor.models.trial.paths import TrialPaths

from pinfold.harbor import PinfoldEnvironment

SOLVED = "#!/bin/bash\nset -e\nid -un >/logs/agent/who\npwd >>/logs/agent/who\necho hello >hello.txt\n"
VERIFIED = """#!/bin/bash
grep -qx hello /app/hello.txt && chown 12:34 /app/hello.txt && echo 1 >/logs/verifier/reward.txt ||
    echo 0 >/logs/verifier/reward.txt
"""
TASK = """version = "1.0"
[environment]
docker_image = "example.org/task:1"
workdir = "/app"
cpus = 1
memory_mb = 1024
storage_mb = 1024
"""


def environment(tmp_path: Path, **more) -> PinfoldEnvironment:
    directory = tmp_path / "environment"
    directory.mkdir(exist_ok=True)
    paths = TrialPaths(tmp_path / "trial")
    if not paths.trial_dir.exists():
        paths.mkdir()
    config = EnvironmentConfig(docker_image="example.org/task:1", memory_mb=1024, storage_mb=64)
    values = {"base": "host", "task_env_config": config, **more}
    return PinfoldEnvironment(
        environment_dir=directory,
        environment_name="task",
        session_id="task__1__env",
        trial_paths=paths,
        logger=logging.getLogger("test"),
        **values,
    )


def test_trials_of_harbor_count_what_the_agent_did(tmp_path):
    task, jobs = tmp_path / "task", tmp_path / "jobs"
    for name, content in {
        "task.toml": TASK,
        "instruction.md": "Write hello to /app/hello.txt.",
        "environment/note.txt": "comes along",
        "solution/solve.sh": SOLVED,
        "tests/test.sh": VERIFIED,
    }.items():
        path = task / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    for agent, reward in (("oracle", 1.0), ("nop", 0.0)):
        words = f"run -p {task} -a {agent} --env pinfold.harbor:PinfoldEnvironment --ek base=host --jobs-dir {jobs / agent} -y"
        program = "from harbor.cli.main import app; app()"
        done = subprocess.run(
            [sys.executable, "-c", program, *words.split()],
            env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        [result] = (jobs / agent).glob("*/task__*/result.json")
        trial = json.loads(result.read_text())
        assert trial["exception_info"] is None, trial["exception_info"]
        assert trial["verifier_result"]["rewards"] == {"reward": reward}, done.stdout
    [who] = (jobs / "oracle").glob("*/task__*/agent/who")
    assert who.read_text() == "root\n/app\n"


def test_files_and_commands_are_those_of_a_container(tmp_path):
    async def tried():
        sandbox = environment(tmp_path)
        await sandbox.start(False)
        try:
            done = await sandbox.exec("id -un; echo $A; echo no >&2; exit 3", env={"A": "b"}, cwd="/tmp", user="root")
            assert (done.stdout, done.stderr, done.return_code) == ("root\nb\n", "no\n", 3)
            with pytest.raises(ValueError, match="one user"):
                await sandbox.exec("true", user="agent")
            with pytest.raises(RuntimeError, match="timed out"):
                await sandbox.exec("sleep 20", timeout_sec=1)
            source = tmp_path / "source"
            (source / "below").mkdir(parents=True)
            (source / "below" / "run.sh").write_text("#!/bin/sh\necho ran\n")
            (source / "below" / "run.sh").chmod(0o755)
            (source / "link").symlink_to("below/run.sh")
            content = os.urandom(9 << 20)
            (source / "large").write_bytes(content)
            await sandbox.upload_dir(source, "/tests/new")
            assert (await sandbox.exec("/tests/new/link; stat -c %U /tests/new/large")).stdout == "ran\nroot\n"
            await sandbox.upload_file(source / "large", "/app/deep/er/large")
            await sandbox.download_file("/app/deep/er/large", tmp_path / "out" / "large")
            assert (tmp_path / "out" / "large").read_bytes() == content
            assert await sandbox.is_dir("/logs/agent") and not await sandbox.is_file("/logs/none")
            with pytest.raises(RuntimeError, match="none"):
                await sandbox.download_dir("/none", tmp_path / "none")
            seen = []

            async def hear(text, stream):
                seen.append((stream, text))

            with sandbox.scoped_output_callback(hear):
                await sandbox.exec("echo out; sleep 0.2; echo err >&2")
            assert seen == [("stdout", "out\n"), ("stderr", "err\n")]
        finally:
            await sandbox.stop(True)
        assert not list(Path(os.environ.get("TMPDIR", "/tmp")).glob("pinfold-harbor-*"))

    asyncio.run(tried())


def test_archives_of_a_hostile_sandbox_stay_below_their_directory(tmp_path):
    async def tried():
        sandbox = environment(tmp_path)
        await sandbox.start(False)
        try:
            # Its own tar says what an archive holds.
            forged = """
import io, sys, tarfile
out = tarfile.open(sys.argv[1], "w")
def add(name, **of):
    entry = tarfile.TarInfo(name)
    [setattr(entry, key, value) for key, value in of.items()]
    out.addfile(entry, io.BytesIO(b"x") if entry.isreg() else None)
kind = sys.argv[2]
if kind == "up": add("../../escaped", size=1)
if kind == "absolute": add("/var/tmp/escaped", size=1)
if kind == "link":
    add("door", type=tarfile.SYMTYPE, linkname="../..")
    add("door/escaped", size=1)
if kind == "hard": add("escaped", type=tarfile.LNKTYPE, linkname="../../secret")
if kind == "long":
    # Longer than PATH_MAX, so that tarfile does not resolve it (CVE-2025-4517).
    name, path, steps = "d" * 247, "", "abcdefghijklmnop"
    for step in steps:
        add(path + name, type=tarfile.DIRTYPE, mode=0o755)
        add(path + step, type=tarfile.SYMTYPE, linkname=name)
        path += name + "/"
    link = "/".join(steps) + "/" + "l" * 254
    add(link, type=tarfile.SYMTYPE, linkname="../" * len(steps))
    add("door", type=tarfile.SYMTYPE, linkname=link + "/../../outside")
    add("door/escaped", size=1)
if kind == "special":
    add("null", type=tarfile.CHRTYPE, devmajor=1, devminor=3)
    add("pipe", type=tarfile.FIFOTYPE)
    add("ids", size=1, mode=0o6755)
    add("line\\nbreak", size=1)
    add("\\x1b[2J", size=1)
    # Four tebibytes in one kibibyte.
    huge = tarfile.TarInfo("huge")
    sparse = {"major": "1", "minor": "0", "name": "huge", "realsize": str(1 << 42)}
    huge.pax_headers = {f"GNU.sparse.{key}": value for key, value in sparse.items()}
    data = f"1\\n{(1 << 42) - 512}\\n512\\n".encode().ljust(512, b"\\0") + b"x" * 512
    huge.size = len(data)
    out.addfile(huge, io.BytesIO(data))
if kind == "many":
    for number in range(60): add(f"file-{number}", size=1)
if kind == "header": add("x" * (2 << 20), size=1)
if kind == "hang":
    import time
    time.sleep(1000)
out.close()
"""
            fake = '#!/bin/sh\nexec python3 -c "$(cat /app/forged.py)" "$2" "$(cat /app/kind)"\n'
            for name, content in (("forged.py", forged), ("tar", fake)):
                (tmp_path / name).write_text(content)
                (tmp_path / name).chmod(0o755)
                await sandbox.upload_file(tmp_path / name, f"/app/{name}")
            await sandbox.exec("tar=$(command -v tar); rm $tar; cp /app/tar $tar; chmod 755 $tar")
            (tmp_path / "secret").write_text("secret")
            (tmp_path / "a" / "outside").mkdir(parents=True)
            for kind in ("up", "absolute", "link", "hard", "long"):
                await sandbox.exec(f"echo {kind} >/app/kind")
                target = tmp_path / "a" / "b" / kind
                # Refused, or kept inside as a name below the directory.
                try:
                    await sandbox.download_dir("/logs", target)
                except Exception as error:
                    assert "tar" in type(error).__module__ or isinstance(error, KeyError), error
                assert not (tmp_path / "a" / "escaped").exists() and not Path("/var/tmp/escaped").exists(), kind
                assert not list((tmp_path / "a" / "outside").iterdir())
                assert not (tmp_path / "escaped").exists() and not (target / "escaped").is_symlink()
                if kind == "hard":
                    assert not (target / "escaped").exists()
            await sandbox.exec("echo special >/app/kind")
            await sandbox.download_dir("/logs", tmp_path / "special")
            assert [path.name for path in (tmp_path / "special").iterdir()] == ["ids"]
            assert (tmp_path / "special" / "ids").stat().st_mode & 0o7000 == 0
            for kind in ("many", "header", "hang"):
                await sandbox.exec(f"echo {kind} >/app/kind")
                limits = {"_ENTRIES": 50, "_PATIENCE": 3 if kind == "hang" else 60}
                with mock.patch.multiple("pinfold.harbor", **limits), pytest.raises(RuntimeError, match="more than|too large"):
                    await sandbox.download_dir("/logs", tmp_path / kind)
                assert not (tmp_path / kind).exists() or len(list((tmp_path / kind).iterdir())) <= 50
            # A file without an end.
            await sandbox.exec("ln -s /dev/zero /app/endless")
            sandbox._most = lambda: 8 << 20
            with pytest.raises(Exception):
                await sandbox.download_file("/app/endless", tmp_path / "endless")
            assert (tmp_path / "endless").stat().st_size <= 12 << 20
        finally:
            await sandbox.stop(True)

    asyncio.run(tried())


def test_task_uploads_no_file_of_this_machine_by_a_link(tmp_path):
    async def tried():
        (tmp_path / "home").mkdir()
        (tmp_path / "home" / "key").write_text("secret")
        task = tmp_path / "task"
        task.mkdir()
        (task / "tests").symlink_to("../home")
        (task / "solve.sh").symlink_to(tmp_path / "home" / "key")
        (task / "inside").symlink_to("environment")
        sandbox = environment(task)
        await sandbox.start(False)
        try:
            for upload, source in ((sandbox.upload_dir, "tests"), (sandbox.upload_file, "solve.sh"), (sandbox.upload_file, "tests/key")):
                with pytest.raises(ValueError, match="leads out of it"):
                    await upload(task / source, "/app/taken")
            await sandbox.upload_dir(task / "inside", "/app/own")
            assert (await sandbox.exec("ls -d /app/own /app/taken 2>/dev/null")).stdout == "/app/own\n"
        finally:
            await sandbox.stop(True)
        (task / "environment").rmdir()
        (task / "environment").symlink_to("../home")
        sandbox = environment(task)
        with pytest.raises(ValueError, match="leads out of it"):
            try:
                await sandbox.start(False)
            finally:
                await sandbox.stop(True)

    asyncio.run(tried())


def test_what_a_session_has_not_is_refused_before_it_starts(tmp_path):
    with pytest.raises(ValueError, match="mounts"):
        environment(tmp_path, mounts=[{"type": "bind", "source": "/etc", "target": "/host"}])
    for image in ("/srv/system", "../../..", "./root.tar", "docker-daemon:mine", "containers-storage:mine"):
        with pytest.raises(ValueError, match="no image of a registry"):
            asyncio.run(environment(tmp_path, base=None, task_env_config=EnvironmentConfig(docker_image=image)).start(False))
    sandbox = environment(tmp_path, base=None, task_env_config=EnvironmentConfig(docker_image="host"))
    assert asyncio.run(sandbox._image(False)) == "docker.io/library/host"
    (tmp_path / "environment" / "docker-compose.yaml").write_text("services: {}\n")
    with pytest.raises(ValueError, match="docker-compose.yaml"):
        environment(tmp_path)


def test_network_of_the_task_holds(tmp_path):
    async def reached(policy):
        sandbox = environment(tmp_path, network_policy=policy)
        assert sandbox._network() is not None
        await sandbox.start(False)
        try:
            probe = "curl -sS -m 5 http://a.example.org/ 2>&1; curl -sS -m 5 http://b.example.net/ 2>&1"
            return (await sandbox.exec(probe)).stdout
        finally:
            await sandbox.stop(True)

    allowed = NetworkPolicy(network_mode=NetworkMode.ALLOWLIST, allowed_hosts=["a.example.org"])
    said = asyncio.run(reached(allowed))
    # What is allowed is looked up, which fails on this machine; what is not says so.
    assert "no rule allows b.example.net" in said and "no rule allows a.example.org" not in said, said
    said = asyncio.run(reached(NetworkPolicy(network_mode=NetworkMode.NO_NETWORK)))
    assert "no rule allows a.example.org" in said, said
