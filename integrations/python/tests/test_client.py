"""The client, with real sessions: `PINFOLD` is the program."""

import asyncio
import os
import signal
import sys
import threading

import pytest

import pinfold
from pinfold import aio


@pytest.fixture
def workspace(tmp_path):
    path = tmp_path.resolve() / "ws"
    path.mkdir()
    return path


@pytest.fixture
def session(workspace):
    with pinfold.Client() as client, client.start(workspace) as session:
        yield session


def test_commands_end_with_their_status_and_output(session, workspace):
    done = session.run(["sh", "-c", "cat; echo $A; pwd; echo e >&2; exit 3"], input="in\n", env={"A": "ä"})
    assert (done.status, done.stderr, done.timed_out, done.limit) == (3, b"e\n", False, None)
    assert done.stdout.decode() == f"in\nä\n{workspace}\n"
    assert session.run(["kill", "-9", "0"]).status in (0, 137)
    assert session.run(["printf", r"a\377b"]).stdout == b"a\xffb"
    late = session.run(["sh", "-c", "echo begun; sleep 60"], timeout=1)
    assert (late.timed_out, late.limit, late.stdout) == (True, "timeout", b"begun\n")
    long = session.run(["seq", "100000"], output=100)
    assert len(long.stdout) == 100 and long.dropped > 500_000
    with pytest.raises(pinfold.ApiError, match="no-such-program"):
        session.run(["no-such-program"])


def test_files_are_those_that_commands_see(session):
    data = bytes(range(256)) * 1000
    session.write_file("a/b/data", data)
    assert session.read_file("a/b/data") == data
    assert session.read_file("a/b/data", most=7) == data[:7]
    assert session.run(["stat", "-c", "%s", "a/b/data"]).stdout == b"256000\n"
    session.run(["sh", "-c", r"""echo tmp >/tmp/t; echo >"$(printf 'n\377ame')" """])
    assert session.read_file("/tmp/t") == b"tmp\n"
    kinds = {entry.name: entry.kind for entry in session.list_directory()}
    assert kinds == {b"a": "directory", b"n\xffame": "file"}
    assert [entry.name for entry in session.find("**/data")] == [b"a/b/data"]
    assert session.read_file(os.fsdecode(b"n\xffame")) == b"\n"
    with pytest.raises(pinfold.ApiError) as missing:
        session.read_file("missing")
    assert missing.value.kind == "not-found"
    with pytest.raises(pinfold.ApiError) as there:
        session.write_file("a/b/data", "x", new=True)
    assert there.value.kind == "exists"
    with pytest.raises(pinfold.ApiError) as outside:
        session.read_file("../../../../../../../root/.bashrc")
    assert outside.value.kind in ("escapes", "not-found", "denied")


def test_output_of_a_command_comes_as_it_is_written(session):
    process = session.spawn(["sh", "-c", "while read -r line; do echo got $line; done; exit 5"], input=True)
    output = process.output()
    for word in ("one", "two"):
        process.write(word + "\n")
        assert next(output) == pinfold.Output("stdout", f"got {word}\n".encode())
    process.write(b"", end=True)
    assert list(output) == []
    assert process.wait().status == 5
    sleeper = session.spawn(["sleep", "600"])
    sleeper.signal(signal.SIGTERM)
    assert sleeper.wait().status == 128 + signal.SIGTERM
    terminal = session.spawn(["sh", "-c", "stty size; test -t 0"], terminal=(33, 99))
    assert b"".join(each.data for each in terminal.output()) == b"33 99\r\n"
    assert terminal.wait().status == 0


def test_threads_share_a_client(session):
    found = []

    def work(number):
        found.append(session.run(["sh", "-c", f"sleep 0.{number}; echo {number}"]).stdout)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [f"{number}\n".encode() for number in range(8)]


def test_sessions_end_with_their_block_and_with_their_client(workspace):
    with pinfold.Client() as client:
        with client.start(workspace, name="of-a-test") as session:
            assert client.sessions()[session.id] == "of-a-test"
        assert session.id not in client.sessions()
        left = client.start(workspace, options=["--allow-host", "example.com"])
        assert left.boundary
        with pytest.raises(pinfold.ApiError, match="--no-such-option"):
            client.start(workspace, options=["--no-such-option"])
        with pytest.raises(pinfold.ApiError):
            client.call("no.such.method")
    with pinfold.Client() as client:
        assert left.id not in client.sessions()


def test_server_that_dies_is_an_error_for_all_who_wait(workspace):
    client = aio.Client()

    async def main():
        await client.__aenter__()
        session = await client.start(workspace)
        process = await session.spawn(["sleep", "600"])
        waiting = asyncio.create_task(session.run(["sleep", "600"]))
        await asyncio.sleep(0.2)
        client._server.kill()
        with pytest.raises(pinfold.PinfoldError, match="has ended"):
            await waiting
        with pytest.raises(pinfold.PinfoldError, match="has ended"):
            await process.wait()
        assert [output async for output in process.output()] == []
        with pytest.raises(pinfold.PinfoldError, match="has ended"):
            await session.run(["true"])
        await client.__aexit__(None, None, None)

    asyncio.run(main())


def test_call_that_is_taken_back_ends_its_command(workspace):
    async def main():
        async with aio.Client() as client, await client.start(workspace) as session:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(session.run(["sleep", "613"]), 0.5)
            for _ in range(100):
                if (await session.run(["pgrep", "-f", "sleep 613"])).status == 1:
                    return
                await asyncio.sleep(0.1)
            raise AssertionError("the command goes on")

    asyncio.run(main())


# A server whose command writes as much as it is asked for, and ends when it is signalled.
FAKE = """#!{python}
import json, sys
def say(**message):
    sys.stdout.write(json.dumps({{"jsonrpc": "2.0", **message}}) + "\\n")
    sys.stdout.flush()
def end(number, status):
    ended = {{"status": status, "timedOut": False}}
    say(method="exec.exit", params={{"exec": number, "ended": ended}})
for line in sys.stdin:
    asked = json.loads(line)
    number, method, params = asked.get("id"), asked["method"], asked.get("params")
    if method == "session.start":
        say(id=number, result={{"session": "s", "boundary": "b", "notes": []}})
    elif method == "session.stop":
        say(id=number, result=seen if (seen := globals().get("signals")) else {{}})
    elif method == "exec.start":
        pieces = int(params["program"]["argv"][0])
        say(id=number, result={{"exec": number}})
        for piece in range(pieces):
            data = "%09d" % piece * 8000
            say(method="exec.output", params={{"exec": number, "stream": "stdout", "data": data}})
        if pieces:
            end(number, 0)
    elif method == "exec.signal":
        signals = {{"signal": params["signal"]}}
        say(id=number, result={{}})
        end(params["exec"], 137)
"""


@pytest.fixture
def fake(tmp_path):
    path = tmp_path / "fake"
    path.write_text(FAKE.format(python=sys.executable))
    path.chmod(0o700)
    return str(path)


def test_output_that_nobody_reads_is_bounded(fake, workspace):
    with pinfold.Client(program=fake) as client, client.start(workspace) as session:
        process = session.spawn(["3000"])
        done = process.wait()
        assert done.status == 0 and done.dropped >= 3000 * 72000 - (64 << 20)
        assert process._process._queue.qsize() * 72000 <= (64 << 20) + 72000
        with pytest.raises(pinfold.PinfoldError, match=f"{done.dropped} bytes of output were dropped"):
            next(process.output())
        left = list(process.output())
        assert len(left) * 72000 + done.dropped == 3000 * 72000
        assert left[-1].data.startswith(b"000002999")


def test_command_whose_start_is_taken_back_is_ended(fake, workspace):
    async def main():
        async with aio.Client(program=fake) as client:
            session = await client.start(workspace)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(session.spawn(["0"]), 0)
            starting = asyncio.create_task(session.spawn(["0"]))
            await asyncio.sleep(0)
            starting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await starting
            stopped = await session.call("session.stop")
            while not stopped:
                stopped = await session.call("session.stop")
            assert stopped == {"signal": signal.SIGKILL}
            assert not client._processes and not client._early and not client._abandoned

    asyncio.run(main())


def test_no_thread_waits_for_a_client_that_is_closed(fake, workspace):
    for _ in range(20):
        client = pinfold.Client(program=fake)
        failed = []

        def wait(work):
            try:
                work()
            except pinfold.PinfoldError as error:
                failed.append(error)

        with client:
            session = client.start(workspace)
            process = session.spawn(["0"])

            def ask():
                while True:
                    client.call("session.stop")

            waits = [process.wait, lambda: client.call("no.answer"), ask, ask]
            threads = [threading.Thread(target=wait, args=(work,), daemon=True) for work in waits]
            for thread in threads:
                thread.start()
        for thread in threads:
            thread.join(10)
            assert not thread.is_alive()
        assert len(failed) == 4
        with pytest.raises(pinfold.PinfoldError, match="closed"):
            session.run(["true"])


def test_missing_program_is_named(monkeypatch):
    monkeypatch.setenv("PINFOLD", "/no/such/pinfold")
    with pytest.raises(FileNotFoundError, match="/no/such/pinfold"), pinfold.Client():
        pass
