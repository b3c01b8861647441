"""What mini-swe-agent expects of an environment, asked of its own local one and of pinfold's."""

import os
import subprocess
import time

from minisweagent.environments.local import LocalEnvironment
from minisweagent.exceptions import Submitted

from pinfold.mini_swe_agent import PinfoldEnvironment


def checks(here, env):
    """Yields what was seen, by name."""

    def ran(command, **more):
        return env.execute({"command": command}, **more)

    def out(command, **more):
        return ran(command, **more)["output"]

    yield "output", out("echo hello") == "hello\n"
    codes = (0, 1, 42, 255)
    yield "status", [ran(f"exit {code}")["returncode"] for code in codes] == list(codes)
    yield "status of a signal", ran("kill -9 $$")["returncode"] in (-9, 137)
    yield "missing command", ran("no-such-command-here")["returncode"] == 127
    yield "both streams in order", out("echo a; echo b >&2; echo c") == "a\nb\nc\n"
    yield "given variable", out('printf %s "$GIVEN"') == "a b'c"
    yield "directory", out("pwd") == here + "\n"
    yield "directory of one command", out("pwd", cwd="/tmp") == "/tmp\n"
    yield "files stay", ran("echo kept >kept")["returncode"] == 0 and out("cat kept") == "kept\n"
    gone = ran("export GONE=1")["returncode"] == 0 and out('printf %s "${GONE-}"') == ""
    yield "variables do not stay", gone
    yield "invalid text", out(r"printf 'a\377b'") == "a\ufffdb"
    much = sum(len(str(number)) + 1 for number in range(1, 300001))
    yield "much output", len(out("seq 300000")) == much
    yield "no input", out("cat </dev/null; echo end") == "end\n"
    yield "many lines of a command", out("for i in 1 2; do\n  echo $i\ndone") == "1\n2\n"
    late = ran("echo begun; sleep 30", timeout=2)
    ended = late["returncode"] == -1 and "begun" in late["output"]
    yield "timeout", ended and "timed out" in late["exception_info"]
    yield "works after a timeout", out("echo again") == "again\n"
    begun = time.monotonic()
    started = out("sleep 20 >/dev/null 2>&1 & echo started") == "started\n"
    yield "background process", started and time.monotonic() - begun < 10
    try:
        ran("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo answer")
        yield "submission", False
    except Submitted as submitted:
        yield "submission", submitted.messages[0]["extra"]["submission"] == "answer\n"
    yield "template", env.get_template_vars()["system"] == "Linux"
    kind = env.serialize()["info"]["config"]["environment_type"]
    yield "kind", kind.endswith(type(env).__name__)


def test_environment_is_as_mini_swe_agents_own(tmp_path, monkeypatch):
    here = str(tmp_path.resolve())
    monkeypatch.setenv("FORWARDED", "from outside")
    options = {"cwd": here, "env": {"GIVEN": "a b'c"}}
    local = dict(checks(here, LocalEnvironment(**options)))
    env = PinfoldEnvironment(forward_env=["FORWARDED", "MISSING"], **options)
    assert dict(checks(here, env)) == local == dict.fromkeys(local, True)
    # What commands have of this process is what was named, and files of others are not there.
    monkeypatch.setenv("SECRET_OF_THE_HOST", "canary")
    seen = env.execute({"command": "echo $FORWARDED; env; ls -d /root/.ssh /home/*/.ssh"})["output"]
    assert seen.startswith("from outside\n") and "canary" not in seen and ".ssh\n" not in seen
    session = env._session.id
    env.close()
    left = subprocess.run([os.environ["PINFOLD"], "ps"], capture_output=True, text=True).stdout
    assert session not in left
    assert env.execute({"command": "true"})["returncode"] == -1
