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

/// The core that a switch has when it is measured on one; everything else of the measurement then runs on the first.
pub(crate) const SWITCH_CORE: usize = 1;

/// Keeps the calling thread on the first core while it lives; then it may run on all those again that it might before.
pub(crate) struct OnFirstCore(libc::cpu_set_t);

impl OnFirstCore {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: all-zero is a valid, empty set.
        let (mut before, mut first): (libc::cpu_set_t, libc::cpu_set_t) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        // SAFETY: the pointer is to a set of the size given that outlives the call; 0 is the calling thread.
        if unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut before) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: 0 is within the set.
        unsafe { libc::CPU_SET(0, &mut first) };
        // SAFETY: as above.
        if unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const first) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self(before))
    }
}

impl Drop for OnFirstCore {
    fn drop(&mut self) {
        // SAFETY: as above. If it fails, what follows is measured on the first core, and says so by its rate.
        unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const self.0) };
    }
}
