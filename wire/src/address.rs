//! Hardware addresses and the default service addresses of switches.

use core::fmt;
use core::str::FromStr;
use std::net::Ipv4Addr;

/// Any switch takes packets to it: a host announces itself without knowing its leaf.
pub const ANNOUNCE_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 255, 255, 254);

/// Locally administered prefix of everything inca invents: service MACs, and the organisation of link probes.
pub const MAC_PREFIX: [u8; 3] = [0x02, 0x1c, 0xa0];

/// Default service address of the switch with this device id; its low 16 bits count.
pub const fn service_address(device_id: u16) -> Ipv4Addr {
    let [high, low] = device_id.to_be_bytes();
    Ipv4Addr::new(10, 255, high, low)
}

/// Service MAC of the switch with this device id.
pub const fn service_mac(device_id: u16) -> MacAddr {
    let ([a, b, c], [high, low]) = (MAC_PREFIX, device_id.to_be_bytes());
    MacAddr([a, b, c, 0, high, low])
}

/// An Ethernet address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// All ones.
    pub const BROADCAST: Self = Self([0xFF; 6]);
    /// Where LLDP frames go: never forwarded by bridges.
    pub const LLDP: Self = Self([0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e]);

    /// Whether the group bit is set (broadcast included).
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 == 1
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Text that is no Ethernet address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "ethernet address {0:?}: must be six two-digit hexadecimal numbers between colons, as 02:1c:a0:00:00:01"
)]
pub struct MacAddrError(String);

impl FromStr for MacAddr {
    type Err = MacAddrError;

    fn from_str(text: &str) -> Result<Self, MacAddrError> {
        let error = || MacAddrError(text.to_owned());
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().ok_or_else(error)?;
            // from_str_radix alone would take a sign and a single digit.
            if part.len() != 2 || !part.bytes().all(|c| c.is_ascii_hexdigit()) {
                return Err(error());
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| error())?;
        }
        parts.next().is_none().then_some(Self(bytes)).ok_or_else(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_addresses_hold_the_device_id() {
        assert_eq!(service_address(0x0102), Ipv4Addr::new(10, 255, 1, 2));
        assert_eq!(service_mac(0x0102).to_string(), "02:1c:a0:00:01:02");
    }

    #[test]
    fn mac_addresses_round_trip_and_nonsense_is_refused() {
        let mac = MacAddr([0x02, 0x1c, 0xa0, 0, 0xff, 9]);
        assert_eq!(mac.to_string().parse(), Ok(mac));
        for bad in [
            "",
            "02:1c:a0:00:ff",
            "02:1c:a0:00:ff:09:",
            "2:1c:a0:00:ff:09",
            "+2:1c:a0:00:ff:09",
            "02-1c-a0-00-ff-09",
        ] {
            assert!(bad.parse::<MacAddr>().is_err(), "{bad}");
        }
    }
}
