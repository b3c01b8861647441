"""Inspect's own conformance suite, against sessions of pinfold."""

import pytest
import pytest_asyncio
from inspect_ai.util._sandbox.self_check import *  # noqa: F403
from pinfold.inspect_sandbox import PinfoldSandboxEnvironment

# A session has one user.
IMPOSSIBLE = {"test_exec_as_user"}


@pytest_asyncio.fixture
async def sandbox_env(request):
    if request.node.originalname in IMPOSSIBLE:
        request.node.add_marker(pytest.mark.xfail(strict=True))
    environments = await PinfoldSandboxEnvironment.sample_init("self_check", None, {})
    yield environments["default"]
    await PinfoldSandboxEnvironment.sample_cleanup("self_check", None, environments, False)
