//! Waiting for packet sockets.

use std::io;
use std::time::Duration;

use inca_switch::ports::PacketSocket;

/// Waits until one of the sockets can be read and marks which can; false after the time.
pub(crate) fn wait(sockets: &[PacketSocket], ready: &mut [bool], time: Duration) -> io::Result<bool> {
    let mut waits: Vec<libc::pollfd> = sockets
        .iter()
        .map(|socket| libc::pollfd { fd: socket.fd(), events: libc::POLLIN, revents: 0 })
        .collect();
    // SAFETY: pointer and length are those of a mutable vector that outlives the call.
    let count = unsafe {
        libc::poll(waits.as_mut_ptr(), waits.len() as libc::nfds_t, time.as_millis() as libc::c_int)
    };
    for (ready, wait) in ready.iter_mut().zip(&waits) {
        *ready = wait.revents != 0;
    }
    if count < 0 { Err(io::Error::last_os_error()) } else { Ok(count > 0) }
}
