//! How the measured processes are scheduled.

use std::io;

/// Puts this process, and what it starts, under Linux's batch policy: a thread that is woken waits its turn instead of interrupting the
/// one that runs. With more threads than cores (a switch has half a dozen) the interruptions would cost a third of the throughput, and
/// how many there are depends on chance.
pub(crate) fn in_batches() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the pointer is to a sched_param that outlives the call; 0 is this process.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const parameters) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
