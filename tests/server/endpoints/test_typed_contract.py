"""The type checker follows a request from its bytes to its response, and a configuration's key to its value."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from odradek.protocol.apis import APIS, Api
from odradek.server import endpoints
from odradek.server.endpoints import endpoint_files

from tests.harness.type_checker import lines_with_errors, type_errors

EVERY_API = pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)

RIGHT_KEYS = """
from odradek.server.config.broker_config import BrokerConfig

config = BrokerConfig({})
interval_ms: int = config.get("log.retention.check.interval.ms")
roles: tuple[str, ...] = config.get("process.roles")
port: int | None = config.get("odradek.metrics.port")
policy: tuple[str, ...] = config.topic_values({})["cleanup.policy"]
"""

#: Every statement from the fourth line on is wrong.
WRONG_KEYS = """
from odradek.server.config.broker_config import BrokerConfig
config = BrokerConfig({})
config.get("node.idd")
interval: str = config.get("log.retention.check.interval.ms")
config.get("process.roles").lower()
config.get("odradek.metrics.port") + 1
config.get("node" + ".id")
config.topic_values({})["cleanup.polici"]
"""

CONTRACT = """
from odradek.client.peers import Peers
from odradek.protocol.codec import decode, encode, lowered_decoder
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from odradek.server.access.authorization.usual_requirements import on_group, on_transactional_id
from odradek.server.coordinators.group_coordinator import GROUP_COORDINATOR
from odradek.server.coordinators.transaction_coordinator import TRANSACTION_COORDINATOR
from odradek.server.network.api_endpoint import ApiEndpoint
from odradek.server.network.call import Call
from odradek.server.services import Services
"""

RIGHT_CONTRACT = (
    CONTRACT
    + """

def handle(services: Services, call: Call[HeartbeatRequest]) -> HeartbeatResponse | None:
    member: str = call.request.member_id
    call.reply(HeartbeatResponse())
    return None


ENDPOINT: ApiEndpoint[HeartbeatRequest, HeartbeatResponse] = ApiEndpoint(
    handle=handle, authorization=(on_group(),), place=GROUP_COORDINATOR, wanted_wait_ms=lambda request: request.generation_id
)
request, end = decode(HeartbeatRequest, 4, b"")
generation: int = request.generation_id
"""
)

WRONG_CONTRACT = (
    CONTRACT
    + """

def handle(services: Services, call: Call[HeartbeatRequest]) -> HeartbeatResponse | None:
    call.request.protocols  # wrong: a field of another API
    return JoinGroupResponse()  # wrong: the response of another API


def reject(call: Call[JoinGroupRequest], error: int, message: str | None) -> JoinGroupResponse:
    return JoinGroupResponse()


A: ApiEndpoint[JoinGroupRequest, JoinGroupResponse] = ApiEndpoint(
    authorization=(),
    handle=handle,  # wrong: handles another API
)
B: ApiEndpoint[HeartbeatRequest, HeartbeatResponse] = ApiEndpoint(
    authorization=(on_transactional_id(),),  # wrong: the request has no transactional id
    reject=reject,  # wrong: the response of another API
    place=TRANSACTION_COORDINATOR,  # wrong: no request of transactions
    wanted_wait_ms=lambda request: request.session_timeout_ms,  # wrong: a field of another API
)
request, end = decode(HeartbeatRequest, 4, b"")
request.protocols  # wrong: a field of another API
"""
)


@pytest.fixture(scope="module")
def errors(processes: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Returns the lines of the type checker about each program."""
    return type_errors(
        tmp_path_factory.mktemp("programs"),
        right_keys=RIGHT_KEYS,
        right_contract=RIGHT_CONTRACT,
        wrong_keys=WRONG_KEYS,
        wrong_contract=WRONG_CONTRACT,
    )


@pytest.mark.parametrize("program", ["right_keys", "right_contract"])
def test_right_use_passes(program: str, errors: dict[str, list[str]]) -> None:
    assert errors[program] == []


def test_misspelt_key_and_wrongly_used_value_are_errors(errors: dict[str, list[str]]) -> None:
    last = len(WRONG_KEYS.splitlines())
    assert lines_with_errors(errors["wrong_keys"]) == set(range(4, last + 1))


def test_messages_of_another_api_are_errors(errors: dict[str, list[str]]) -> None:
    marked = {at for at, line in enumerate(WRONG_CONTRACT.splitlines(), 1) if "# wrong: " in line}
    assert lines_with_errors(errors["wrong_contract"]) == marked


@EVERY_API
def test_endpoint_is_declared_with_the_messages_of_its_api(api: Api) -> None:
    """The dispatcher finds an endpoint by the name of its file, which no type checker sees."""
    file = endpoint_files()[api.name.lower()].replace(".", "/")
    tree = ast.parse(Path(str(endpoints.__file__)).parent.joinpath(f"{file}.py").read_text(encoding="utf-8"))
    (declared,) = (
        node.annotation
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "ENDPOINT"
    )
    assert ast.unparse(declared) == f"ApiEndpoint[{api.request.__name__}, {api.response.__name__}]"
