//! Panics of threads and tasks that are not the caller's: they would otherwise pass as a lost connection.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

static ALARMS: AtomicU64 = AtomicU64::new(0);

/// Counts panics from now on, beside whatever else is done about them.
pub fn arm() {
    static ARMED: Once = Once::new();
    ARMED.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            ALARMS.fetch_add(1, Ordering::SeqCst);
            usual(info);
        }));
    });
}

/// Panics so far, of any thread.
pub fn alarms() -> u64 {
    ALARMS.load(Ordering::SeqCst)
}
