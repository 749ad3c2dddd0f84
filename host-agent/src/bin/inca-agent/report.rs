//! What is printed.

use std::io::IsTerminal as _;
use std::time::Duration;

use inca_host_agent::Communicator;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

/// Counters of the whole run.
#[derive(Debug, Serialize)]
pub(crate) struct Counters {
    pub(crate) chunks: u64,
    pub(crate) transmissions: u64,
    pub(crate) retransmissions: u64,
    pub(crate) extra_passes: u64,
    pub(crate) stale_results: u64,
    pub(crate) ignored_packets: u64,
    pub(crate) window_reductions: u64,
    pub(crate) refused_sends: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
    pub(crate) rtt_us: Option<f64>,
}

impl Counters {
    pub(crate) fn of(group: &Communicator) -> Self {
        let (stats, refused_sends) = group.stats();
        Self {
            chunks: stats.chunks,
            transmissions: stats.transmissions,
            retransmissions: stats.retransmissions,
            extra_passes: stats.extra_passes,
            stale_results: stats.stale,
            ignored_packets: stats.garbage + stats.foreign + stats.incomplete,
            window_reductions: stats.window_reductions,
            refused_sends,
            sent_bytes: stats.sent_bytes,
            received_bytes: stats.received_bytes,
            rtt_us: stats.smoothed_rtt.map(|rtt| rtt.as_secs_f64() * 1e6),
        }
    }
}

impl std::fmt::Display for Counters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let share = 100.0 * self.retransmissions as f64 / (self.transmissions as f64).max(1.0);
        write!(
            f,
            "{} chunks, {} packets sent, {} retransmitted ({share:.2} %), {} extra passes, {} late or double results, {} packets ignored",
            self.chunks,
            self.transmissions,
            self.retransmissions,
            self.extra_passes,
            self.stale_results,
            self.ignored_packets
        )?;
        if self.refused_sends > 0 {
            write!(f, ", {} sends refused by the kernel", self.refused_sends)?;
        }
        if let Some(rtt) = self.rtt_us {
            write!(f, ", round trip {rtt:.0} us")?;
        }
        Ok(())
    }
}

/// MB/s, with 10^6 bytes per MB.
pub(crate) fn megabytes_per_second(bytes: u64, time: Duration) -> f64 {
    bytes as f64 / 1e6 / time.as_secs_f64().max(1e-9)
}

/// Says loudly that the sums were not made in the switches.
pub(crate) fn print_fallback(reason: Option<&str>) {
    if let Some(reason) = reason {
        println!("# FALLBACK: summed by a ring of the hosts over tcp, not in the switches: {reason}");
    }
}

/// A progress bar on stderr, if that is a terminal.
pub(crate) fn progress(total: u64, what: &str, quiet: bool) -> ProgressBar {
    if quiet || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(10));
    if let Ok(style) = ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} {eta}") {
        bar.set_style(style);
    }
    bar.set_prefix(what.to_owned());
    bar
}

/// Prints a value as one line of JSON.
pub(crate) fn json(value: &impl Serialize) {
    match serde_json::to_string(value) {
        Ok(text) => println!("{text}"),
        Err(error) => eprintln!("error: printing JSON: {error}"),
    }
}
