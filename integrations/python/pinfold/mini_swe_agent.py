"""An environment of mini-swe-agent whose commands run in one session.

    environment:
      environment_class: pinfold.mini_swe_agent.PinfoldEnvironment
      cwd: /home/me/src/app
"""

from __future__ import annotations

import os
import platform
import weakref
from typing import Any, Optional

from minisweagent.exceptions import Submitted
from minisweagent.utils.serialize import recursive_merge
from pydantic import BaseModel

from .client import Client

# Bytes of output that are kept. More than a model reads.
_OUTPUT = 32 << 20


class PinfoldEnvironmentConfig(BaseModel):
    """What an environment is made of."""

    cwd: str = ""
    """The workspace, and where commands run; the current directory if empty."""
    options: list[str] = []
    """Options of `pinfold run`."""
    env: dict[str, str] = {}
    forward_env: list[str] = []
    """Variables of this process that commands have, too."""
    timeout: int = 30
    """Seconds for one command."""
    interpreter: list[str] = ["bash", "-c"]


class PinfoldEnvironment:
    """A session, which ends with this object, with `close` or with the program."""

    def __init__(self, *, config_class: type[PinfoldEnvironmentConfig] = PinfoldEnvironmentConfig, **kwargs: Any) -> None:
        self.config = config_class(**kwargs)
        self._cwd = self.config.cwd or os.getcwd()
        client = Client()
        client.__enter__()
        self._end = weakref.finalize(self, client.__exit__)
        try:
            self._session = client.start(self._cwd, options=self.config.options)
        except BaseException:
            self._end()
            raise

    def close(self) -> None:
        """Ends the session."""
        self._end()

    def execute(self, action: dict[str, Any], cwd: str = "", *, timeout: Optional[int] = None) -> dict[str, Any]:
        """Runs a command, and returns its output, status and what went wrong."""
        forwarded = {name: os.environ[name] for name in self.config.forward_env if name in os.environ}
        limit = timeout or self.config.timeout
        # Both streams in the order in which they are written.
        command = f"exec 2>&1\n{action.get('command', '')}"
        try:
            done = self._session.run(
                [*self.config.interpreter, command],
                cwd=cwd or self._cwd,
                env={**forwarded, **self.config.env},
                timeout=limit,
                output=_OUTPUT,
            )
        except Exception as error:
            return _failed("", error)
        text = done.stdout.decode("utf-8", "replace")
        if done.timed_out:
            return _failed(text, TimeoutError(f"the command timed out after {limit} seconds"))
        output = {"output": text, "returncode": done.status, "exception_info": ""}
        self._check_finished(output)
        return output

    def _check_finished(self, output: dict[str, Any]) -> None:
        lines = output["output"].lstrip().splitlines(keepends=True)
        first = lines[0].strip() if lines else ""
        if first != "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT" or output["returncode"] != 0:
            return
        submission = "".join(lines[1:])
        extra = {"exit_status": "Submitted", "submission": submission}
        raise Submitted({"role": "exit", "content": submission, "extra": extra})

    def get_template_vars(self, **kwargs: Any) -> dict[str, Any]:
        """Returns what templates of prompts know of the environment."""
        machine = platform.uname()._asdict()
        merged: dict[str, Any] = recursive_merge(self.config.model_dump(), machine, kwargs)
        return merged

    def serialize(self) -> dict[str, Any]:
        """Returns what is kept of it with an agent's run."""
        kind = f"{type(self).__module__}.{type(self).__name__}"
        config = {"environment": self.config.model_dump(mode="json"), "environment_type": kind}
        return {"info": {"config": config}}


def _failed(output: str, error: Exception) -> dict[str, Any]:
    return {
        "output": output,
        "returncode": -1,
        "exception_info": f"An error occurred while executing the command: {error}",
        "extra": {"exception_type": type(error).__name__, "exception": str(error)},
    }
