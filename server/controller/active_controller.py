"""The active controller: decides requests, appends the decisions, and replies when they are published.

A decision is replayed here first and then appended. Its reply waits until the quorum has committed the records and
this node has published them. Only the quorum's leader has an active controller; one that loses leadership fails its
waiting requests and discards its state.

`LogRoom` keeps room for the metadata log on its disk: the controller refuses requests that would use it up, before
anything is written.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Unpack

from ...protocol.errors import ErrorCode
from ...protocol.schema import Message, Request, ResponseCallback
from ...replication.controller.controller import Controller, error_response
from ...replication.controller.maintenance import WriteNoOpRequest
from ...replication.controller.result import ControllerResult, RequestError
from ...replication.controller.state import ANONYMOUS, Caller
from ...storage.files.failures import LogDirectoryFailure
from ..access.authorization.requirements import Deciding, Denial, Requirements, check
from ..access.quotas.mutation_quota import mutation_quota
from ..network.api_endpoint import SMALL_RESERVE, ApiEndpoint
from ..network.response_fields import set_throttle_time
from ..runtime.halting import cannot_begin
from ..runtime.sliced_work import SlicedWork
from .commits import Appended, replay_decision
from .controller_request import Asked, ClientFields
from .image_publishing import ImagePublishing
from .log_room import LogRoom
from .metadata_batches import BatchTooLarge
from .single_voter_start import activation, new_controller
from .undecided import failed_here, not_controller
from .waiting_replies import WaitingReplies

if TYPE_CHECKING:
    from ..access.authorization.authorization import Authorization
    from ..access.subsystem import AccessSubsystem
    from ..runtime.node import Node
    from .quorum_membership import QuorumMembership

log = logging.getLogger("odradek.quorum")
#: Finds the endpoint of a request; None for a request of the controller to itself.
EndpointOf = Callable[[Request], "ApiEndpoint | None"]


def decision_requirements(endpoint: ApiEndpoint | None) -> Requirements[Request]:
    """Returns what a client needs to have its request decided here; none for a request that no
    client may have decided: it has no endpoint, or another place answers it.
    """
    return endpoint.authorization if endpoint is not None and endpoint.place.is_controller else ()


def _reserve(endpoint: ApiEndpoint | None, request: Request) -> int:
    """Returns the bytes that must stay free on the disk after the records of a decision."""
    if endpoint is not None:
        return endpoint.log_reserve
    # The NoOp records of an idle quorum have no purpose that is worth the last room.
    return SMALL_RESERVE if isinstance(request, WriteNoOpRequest) else 0


class ActiveController:
    """The controller of this node. It is active while this node leads and has committed its own first record.

    `activated` is called when the controller has become active, `failed` when the disk fails or a new controller cannot
    begin.
    """

    def __init__(
        self,
        node: Node,
        access: AccessSubsystem,
        member: QuorumMembership,
        images: ImagePublishing,
        endpoint_of: EndpointOf,
        *,
        activated: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._activated = activated
        self._failed = failed
        self.is_active = False
        #: The epoch in which the controller was last active.
        self.epoch = 0
        self._config = node.config
        self._cluster_id = node.identity.cluster_id
        self._clock = node.clock
        self._member = member
        self._images = images
        self._room = LogRoom(node.config.metadata_log_dir, node.lines)
        self._quotas = access.quotas
        self._authorizer = access.authorizer
        self._policies = access.policies
        self._endpoint_of = endpoint_of
        self._waiting = WaitingReplies()
        self._controller: Controller | None = None
        #: Builds the state of a controller that becomes active.
        self._learning = SlicedWork(lambda failure: self._failed(cannot_begin(failure)))

    @property
    def controller(self) -> Controller:
        assert self._controller is not None, "this node is not the active controller"
        return self._controller

    # Requests.

    def decide(self, request: Request, version: int, reply: ResponseCallback, **client: Unpack[ClientFields]) -> None:
        """Decides the request here; NOT_CONTROLLER where another controller is active before its records are committed."""
        if not self.is_active or not self._member.leads:
            reply(not_controller(request, version))
            return
        controller, quorum_log = self.controller, self._member.log
        if controller.next_offset != quorum_log.end_offset:  # the quorum has appended records of its own
            controller.load(controller.image, quorum_log.end_offset, self._member.kraft_version)
        endpoint = self._endpoint_of(request)
        if self._authorizer is not None and client:
            permitted, reply = self._authorized(self._authorizer, endpoint, Asked(request, version), reply, client)
            if permitted is None:
                return
            request = permitted
        try:
            decided = self._decided(controller, endpoint, request, version, client)
            result = self._room.admitted(Asked(request, version), decided, _reserve(endpoint, request))
            try:
                self.append(result.records, result.atomic)
            except BatchTooLarge as error:
                reply(error_response(request, version, RequestError(ErrorCode.POLICY_VIOLATION, str(error))))
                return
            if self._authorizer is not None and client and result.records and endpoint and not endpoint.is_of_nodes:
                self._authorizer.note_change(client.get("principal", ""), client.get("client_host", ""), request)
        except LogDirectoryFailure as failure:
            self._failed(failure)
            reply(not_controller(request, version))
            return
        except Exception:
            log.exception("a bug: the controller failed in %s", type(request).__name__)
            reply(failed_here(request, version))
            return
        if result.kraft_version:
            self._member.joined().raise_kraft_version(result.kraft_version)
            controller.load(controller.image, quorum_log.end_offset, self._member.kraft_version)
        offset = controller.next_offset
        if offset <= self._images.end_offset:
            reply(result.response)
        else:
            self._waiting.add(offset, Asked(request, version), reply, result.response)

    def _decided(
        self, controller: Controller, endpoint: ApiEndpoint | None, request: Request, version: int, client: ClientFields
    ) -> ControllerResult:
        """Returns the decision, with the throttle time of a client that makes too many changes."""
        principal, client_id = client.get("principal"), client.get("client_id")
        now_ms = self._clock.now_ms()
        strict_since = None if endpoint is None else endpoint.strict_mutations_since
        quota = None
        if strict_since is not None and principal is not None:  # requests of nodes have no principal
            quota = mutation_quota(self._quotas, principal, client_id, now_ms, is_strict=version >= strict_since)
        caller = Caller(principal or ANONYMOUS.principal, now_ms)
        result = controller.handle(request, version, quota, caller)
        if quota is not None and quota.throttle_ms:
            set_throttle_time(result.response, quota.throttle_ms)
        return result

    def _authorized(
        self,
        authorizer: Authorization,
        endpoint: ApiEndpoint | None,
        asked: Asked,
        reply: ResponseCallback,
        client: ClientFields,
    ) -> tuple[Request | None, ResponseCallback]:
        """Returns what a client may have decided, and how to reply to it. A request that is refused is replied to.

        The controller's runner of the requirements.
        """
        request, version = asked.request, asked.version
        api = type(request).__name__.removesuffix("Request")
        session = authorizer.session_of(client.get("principal", ""), client.get("client_host", ""), api)
        checked = check(decision_requirements(endpoint), session, asked, self._deciding())
        if isinstance(checked, Denial):
            reply(error_response(request, version, RequestError(*checked)))
            return None, reply
        permitted = checked.request
        if permitted is request:
            return request, reply
        elsewhere = not_controller(permitted, version)

        def finish(response: Message) -> None:
            if response == elsewhere and elsewhere != failed_here(permitted, version):
                reply(not_controller(request, version))
            else:
                reply(checked.finish(response))

        return permitted, finish

    def _deciding(self) -> Deciding:
        return Deciding(self.controller.image, self._config.get("delete.topic.enable"))

    def append(self, records: Sequence[Message], atomic: bool) -> None:
        """Replays records that the controller has decided, and appends them. Raises LogDirectoryFailure, and BatchTooLarge
        before anything has changed.
        """
        if not records:
            return
        controller, member, quorum_log = self.controller, self._member, self._member.log
        now_ms, base_offset, epoch = self._clock.now_ms(), quorum_log.end_offset, member.epoch
        metadata_version = controller.image.features.metadata_version
        batches = quorum_log.encoded(records, epoch, now_ms, metadata_version, atomic)
        replay_decision(controller, records, epoch, now_ms, member.kraft_version)
        quorum_log.append_batches(batches, now_ms)
        assert quorum_log.end_offset == controller.next_offset, "the log and the controller count the same records"
        self._images.commits.appended(Appended(base_offset, controller.next_offset, records, epoch, now_ms))
        member.appended()

    def published(self, end_offset: int) -> None:
        """Replies to the requests whose decisions are published."""
        self._waiting.published(end_offset)

    # Leadership.

    def new(self) -> Controller:
        """Returns a controller without state, to be activated."""
        uses_acls = self._authorizer is not None and self._authorizer.uses_acls
        unsupported = self._kraft_upgrade_error
        return new_controller(self._config, self._cluster_id, unsupported, uses_acls=uses_acls, policies=self._policies)

    def _kraft_upgrade_error(self, version: int) -> str | None:
        """Returns why this node, the leader, cannot raise the KRaft version to `version` now; None when it can."""
        return self._member.joined().replica.kraft_upgrade_error(version)

    def begin(self, controller: Controller, epoch: int) -> None:
        """Begins as the controller of a single voter, whose first records are in the log."""
        self._controller, self.epoch, self.is_active = controller, epoch, True

    def resign_unless_leader(self) -> None:
        """Resigns when another node leads, or this node was elected again in a later epoch."""
        if self.is_active and not (self._member.leads and self._member.epoch == self.epoch):
            self.resign()

    def resign(self) -> None:
        """Fails the waiting requests, and discards the controller's state."""
        self.is_active, self._controller = False, None
        self._images.commits.forget_appended()
        self._waiting.reject_all()

    def activate_if_leader(self) -> None:
        """Makes a new controller active, in slices, when this node may have one and has none."""
        if not self.is_active and self._may_activate() and not self._learning.is_busy:
            controller = self.new()
            steps = controller.learn(self._images.commits.image())
            self._learning.begin(steps, lambda: self._activate(controller))

    def _may_activate(self) -> bool:
        """Returns whether this node leads and has committed its own first record and everything before it."""
        member = self._member
        return member.leads and member.is_caught_up and self._images.committed_offset == member.log.end_offset

    def _activate(self, controller: Controller) -> None:
        """Activates the controller with the committed image, unless leadership was lost, and writes its first records."""
        if not self._may_activate():
            return
        member, commits = self._member, self._images.commits
        self._controller = controller
        controller.load(commits.image(), member.log.end_offset, member.kraft_version)
        self.is_active, self.epoch = True, member.epoch
        records = activation(self._config, controller, transaction_open=commits.in_transaction)
        self.append(records, atomic=True)
        self._activated()

    def stop(self) -> None:
        self.is_active = False
        self._learning.stop()
