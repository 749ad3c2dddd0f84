"""inca: in-network collectives on P4 switches. One process is one rank of a job.

    import numpy as np
    import inca

    with inca.Communicator.join("http://192.0.2.1:9559", "training", rank=0, world=4, interface="eth1") as group:
        gradient = np.ones(1 << 20, np.float32)
        group.allreduce(gradient, op="average", timeout=10.0)

Arrays are NumPy's, or anything else with a buffer of numbers; they must be C-contiguous and are used where they lie.
Every rank must call the same operations in the same order.
"""

from ._native import Communicator, Handle, set_log
from .errors import (
    ArrayError,
    Cancelled,
    Closed,
    CollectiveError,
    DeadlineExceeded,
    Disagreement,
    DriverGone,
    DtypeError,
    ExchangeFailed,
    GroupClosed,
    IncaError,
    JoinError,
    JoinOptionsError,
    JoinTimeout,
    LeaveError,
    Mismatch,
    NotConnected,
    OperationError,
    OutputMismatch,
    Overflow,
    PeerLost,
    Protocol,
    RanksError,
    Refused,
    RootError,
    StartError,
    TooLarge,
    Unreachable,
    Unsupported,
)

__all__ = [
    "ArrayError",
    "Cancelled",
    "Closed",
    "CollectiveError",
    "Communicator",
    "DeadlineExceeded",
    "Disagreement",
    "DriverGone",
    "DtypeError",
    "ExchangeFailed",
    "GroupClosed",
    "Handle",
    "IncaError",
    "JoinError",
    "JoinOptionsError",
    "JoinTimeout",
    "LeaveError",
    "Mismatch",
    "NotConnected",
    "OperationError",
    "OutputMismatch",
    "Overflow",
    "PeerLost",
    "Protocol",
    "RanksError",
    "Refused",
    "RootError",
    "StartError",
    "TooLarge",
    "Unreachable",
    "Unsupported",
    "set_log",
]
