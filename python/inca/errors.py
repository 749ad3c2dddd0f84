"""What can go wrong: one class for each error of the Rust library, or for each kind of it."""

from __future__ import annotations


class IncaError(Exception):
    """Everything that this package raises.

    `missing_ranks`: the ranks that are known to be missing or dead, where the error is about those.
    """

    missing_ranks: list[int]

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.missing_ranks = []


class JoinError(IncaError):
    """Joining failed."""


class JoinOptionsError(JoinError, ValueError):
    """An option makes no sense; the message says what is valid."""


class Refused(JoinError):
    """The controller refused: another rank has this number, other terms than the group's, no room."""


class JoinTimeout(JoinError, TimeoutError):
    """Not all ranks came in time; `missing_ranks` names them."""


class Unreachable(JoinError, ConnectionError):
    """No controller answered."""


class LeaveError(IncaError):
    """The controller did not confirm. The rank has left all the same."""


class CollectiveError(IncaError):
    """A collective call failed."""


class DriverGone(CollectiveError):
    """The thread that drives the job has ended."""


class StartError(CollectiveError):
    """A call that was not started: nothing was sent, the arrays are as they were, the group goes on."""


class ArrayError(StartError, ValueError):
    """An array that can't be used as it lies in memory."""


class DtypeError(ArrayError, TypeError):
    """An element type that is not carried."""


class OutputMismatch(ArrayError):
    """Input and output are not alike."""


class Unsupported(StartError, ValueError):
    """The job's number format does not carry this type through this reduction, or nothing does."""


class RootError(StartError, ValueError):
    """The root is no rank of the group."""


class RanksError(StartError, ValueError):
    """A rank that is none of the group, or not another one."""


class NotConnected(StartError):
    """The ranks do not know each other's addresses: all must call `connect_peers` first."""


class TooLarge(StartError, ValueError):
    """More chunks than can be numbered."""


class GroupClosed(StartError):
    """The group has ended, or this rank has left it: join again."""


class OperationError(CollectiveError):
    """A call that was started and failed. Its output is partly written. All but `Overflow` end the group, for all."""


class DeadlineExceeded(OperationError, TimeoutError):
    """The deadline passed."""


class Mismatch(OperationError, ValueError):
    """Ranks called different operations: every one of them gets this."""


class Overflow(OperationError, OverflowError):
    """An integer sum does not fit the element type; every rank gets this, and the group goes on."""


class Protocol(OperationError):
    """A result that the protocol does not allow."""


class Closed(OperationError):
    """The group ended before the operation did; the message says why, `missing_ranks` who is dead."""


class Cancelled(OperationError):
    """The caller cancelled it."""


class PeerLost(OperationError, ConnectionError):
    """Another rank could not be reached, or its connection broke; `missing_ranks` names it."""


class ExchangeFailed(OperationError):
    """An all-to-all failed at some ranks, hence at all; `missing_ranks` names where."""


class Disagreement(IncaError, ValueError):
    """Ranks named different groups."""
