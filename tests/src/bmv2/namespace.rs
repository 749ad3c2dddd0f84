//! A network namespace of its own for a real switch, its cables, and raw sockets at their far ends.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::time::{Duration, Instant};

/// Runs `work` on a thread in a fresh network namespace with nothing but a loopback interface. What it creates there vanishes with
/// its last process and socket, even if the test is killed.
///
/// # Errors
/// If the namespace can't be made; making one takes CAP_SYS_ADMIN.
pub fn in_fresh_namespace<R: Send>(work: impl FnOnce() -> R + Send) -> io::Result<R> {
    let run = || {
        // SAFETY: unshare takes flags only; it moves the calling thread, which ends with this closure, and no other.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // Neighbour discovery and multicast reports would look like the switch's output.
        for scope in ["all", "default"] {
            let path = format!("/proc/sys/net/ipv6/conf/{scope}/disable_ipv6");
            match std::fs::write(path, "1") {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        run_tool("ip", &["link", "set", "lo", "up"])?;
        Ok(work())
    };
    std::thread::scope(|scope| match scope.spawn(run).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

/// A cable: the switch's end is called `name`, the returned socket is at the other end.
///
/// # Errors
/// If `ip` fails or the socket can't be opened.
pub fn cable(name: &str, mtu: u32) -> io::Result<RawSocket> {
    let far = format!("{name}-far");
    let mtu = mtu.to_string();
    run_tool("ip", &["link", "add", name, "mtu", &mtu, "type", "veth", "peer", "name", &far, "mtu", &mtu])?;
    for end in [name, &far] {
        // With segmentation offload on, a port's ring takes only some 32 packets of a burst.
        run_tool("ethtool", &["-K", end, "tso", "off", "gso", "off", "gro", "off", "tx", "off"])?;
        run_tool("ip", &["link", "set", end, "up"])?;
    }
    RawSocket::open(&far)
}

/// A packet socket on one interface: sends and receives whole frames.
#[derive(Debug)]
pub struct RawSocket {
    fd: OwnedFd,
}

/// Linux's `PACKET_IGNORE_OUTGOING`.
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

impl RawSocket {
    fn open(interface: &str) -> io::Result<Self> {
        let name = CString::new(interface)?;
        // SAFETY: `name` is a string that ends with a zero byte and outlives the call.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
        let protocol = (libc::ETH_P_ALL as u16).to_be();
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: socket takes numbers only.
        let fd = unsafe { libc::socket(libc::AF_PACKET, kind, protocol.into()) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just opened and nobody else has it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let socket = Self { fd };
        socket.set_option(libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)?;
        socket.set_option(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 8 << 20)?;
        // SAFETY: all-zero bytes are a valid sockaddr_ll.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol;
        address.sll_ifindex = index as i32;
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the pointer is to a sockaddr_ll of that length that outlives the call.
        let bound = unsafe { libc::bind(socket.fd.as_raw_fd(), (&raw const address).cast(), length) };
        if bound == 0 { Ok(socket) } else { Err(io::Error::last_os_error()) }
    }

    fn set_option(&self, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
        let length = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: the pointer is to a c_int of that length that outlives the call.
        let set =
            unsafe { libc::setsockopt(self.fd.as_raw_fd(), level, name, (&raw const value).cast(), length) };
        if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Sends one frame.
    ///
    /// # Errors
    /// If the kernel refuses it (shorter than an Ethernet header, larger than the MTU).
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: pointer and length are those of a slice that outlives the call.
        let sent = unsafe { libc::send(self.fd.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// One frame, if one is there: its length in the buffer.
    ///
    /// # Errors
    /// If the interface is gone.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        // SAFETY: pointer and length are those of a mutable slice that outlives the call.
        let got = unsafe { libc::recv(self.fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        if got >= 0 {
            return Ok(Some(got as usize));
        }
        match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            error => Err(error),
        }
    }
}

/// Waits until a frame is at one of these sockets; false if none came before the deadline.
///
/// # Errors
/// If the kernel refuses to wait.
pub fn wait_readable(sockets: &[RawSocket], deadline: Instant) -> io::Result<bool> {
    let mut waits: Vec<libc::pollfd> = sockets
        .iter()
        .map(|socket| libc::pollfd { fd: socket.fd.as_raw_fd(), events: libc::POLLIN, revents: 0 })
        .collect();
    let left = deadline.saturating_duration_since(Instant::now()).min(Duration::from_secs(3600));
    // SAFETY: pointer and length are those of a mutable vector that outlives the call.
    let ready = unsafe {
        libc::poll(waits.as_mut_ptr(), waits.len() as libc::nfds_t, left.as_millis() as libc::c_int)
    };
    match ready {
        0 => Ok(false),
        1.. => Ok(true),
        _ => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(true),
            error => Err(error),
        },
    }
}

fn run_tool(tool: &str, args: &[&str]) -> io::Result<()> {
    let output = Command::new(tool).args(args).output()?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{tool} {}: {}", args.join(" "), text.trim())))
}
