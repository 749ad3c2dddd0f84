//! Which interface carries the data plane, and what fits into its packets.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd as _;

use inca_wire::packet::{MAX_WORDS, packet_len};

/// Bytes of the IPv4 header (no options) and the UDP header.
const IP_UDP_HEADERS: u32 = 20 + 8;

/// A network interface with an IPv4 address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataInterface {
    /// Its name, as `eth0`.
    pub name: String,
    /// The address used.
    pub address: Ipv4Addr,
    /// Largest IP packet, in bytes.
    pub mtu: u32,
}

/// Why the data interface can't be used.
#[derive(Debug, thiserror::Error)]
pub enum InterfaceError {
    /// The system does not tell.
    #[error("listing network interfaces")]
    List(#[source] io::Error),
    /// No interface has this address.
    #[error("no interface has address {address}: interfaces here are {found}")]
    NoSuchAddress {
        /// The address asked for.
        address: Ipv4Addr,
        /// What there is.
        found: String,
    },
    /// No interface has this name and an IPv4 address.
    #[error("no interface {name:?} with an IPv4 address: interfaces here are {found}")]
    NoSuchInterface {
        /// The name asked for.
        name: String,
        /// What there is.
        found: String,
    },
    /// Several could be meant.
    #[error("which data interface? name it or give its address; interfaces here are {found}")]
    Ambiguous {
        /// What there is.
        found: String,
    },
    /// The system does not tell the MTU.
    #[error("reading the MTU of interface {name}")]
    Mtu {
        /// The interface.
        name: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A chunk does not fit into a packet.
    #[error(
        "interface {name} has MTU {mtu}, but a chunk of {words} words makes packets of {needed} bytes: {}",
        advice(*.most)
    )]
    MtuTooSmall {
        /// The interface.
        name: String,
        /// Its MTU.
        mtu: u32,
        /// Words per chunk.
        words: u8,
        /// Bytes of an IP packet with that many words.
        needed: u32,
        /// Most words that fit; 0 if not even one does.
        most: u8,
    },
}

fn advice(most: u8) -> String {
    match most {
        0 => "raise the MTU, not even one word fits".to_owned(),
        most => format!("raise the MTU or use at most {most} words"),
    }
}

impl DataInterface {
    /// Finds the interface by address or by name; without either, the only one that is not the loopback.
    pub fn find(address: Option<Ipv4Addr>, name: Option<&str>) -> Result<Self, InterfaceError> {
        let all = list().map_err(InterfaceError::List)?;
        let found = || {
            let texts: Vec<_> = all.iter().map(|(name, address)| format!("{name} ({address})")).collect();
            if texts.is_empty() { "none".to_owned() } else { texts.join(", ") }
        };
        let (name, address) = match (address, name) {
            (Some(address), name) => all
                .iter()
                .find(|(found, at)| *at == address && name.is_none_or(|name| name == found))
                .ok_or_else(|| InterfaceError::NoSuchAddress { address, found: found() })?,
            (None, Some(name)) => all
                .iter()
                .find(|(found, _)| found == name)
                .ok_or_else(|| InterfaceError::NoSuchInterface { name: name.to_owned(), found: found() })?,
            (None, None) => {
                let mut candidates = all.iter().filter(|(_, address)| !address.is_loopback());
                match (candidates.next(), candidates.next()) {
                    (Some(only), None) => only,
                    _ => return Err(InterfaceError::Ambiguous { found: found() }),
                }
            }
        };
        let mtu = mtu(name).map_err(|source| InterfaceError::Mtu { name: name.clone(), source })?;
        Ok(Self { name: name.clone(), address: *address, mtu })
    }

    /// Checks that a chunk of this many words fits into one packet.
    pub fn check_chunk(&self, words: u8) -> Result<(), InterfaceError> {
        let needed = |words: u8| packet_len(words) as u32 + IP_UDP_HEADERS;
        if needed(words) <= self.mtu {
            return Ok(());
        }
        let most = (1..=MAX_WORDS as u8).rev().find(|&words| needed(words) <= self.mtu).unwrap_or(0);
        let (name, mtu, needed) = (self.name.clone(), self.mtu, needed(words));
        Err(InterfaceError::MtuTooSmall { name, mtu, words, needed, most })
    }
}

/// Names and IPv4 addresses of all interfaces.
fn list() -> io::Result<Vec<(String, Ipv4Addr)>> {
    let addresses = nix::ifaddrs::getifaddrs()?;
    Ok(addresses
        .filter_map(|entry| Some((entry.interface_name.clone(), entry.address?.as_sockaddr_in()?.ip())))
        .collect())
}

/// MTU of an interface. Asked by ioctl: `/sys` may show another network namespace.
fn mtu(name: &str) -> io::Result<u32> {
    let too_long = || io::Error::new(io::ErrorKind::InvalidInput, "interface name of 16 bytes or more");
    // SAFETY: an all-zero ifreq is valid: it consists of integers, arrays of them and unions of such.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(too_long());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    // SAFETY: the descriptor is open, and SIOCGIFMTU reads and writes just the ifreq behind the pointer.
    let status = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU as _, &mut request) };
    if status < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: after a successful SIOCGIFMTU the union holds ifru_mtu.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    u32::try_from(mtu).map_err(|_| io::Error::other(format!("MTU {mtu}")))
}

#[cfg(test)]
#[path = "interface_tests.rs"]
mod tests;
