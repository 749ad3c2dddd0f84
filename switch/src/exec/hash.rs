//! Hash algorithms of calculations and selectors, as BMv2 names and computes them. All give up to 64 bits.

/// An algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Crc(Crc),
    Csum16,
    Xor16,
    Xor32,
    Identity,
    Xxh64,
    /// Counts calls: the result of the n-th is n.
    RoundRobin,
}

/// A cyclic redundancy check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Crc {
    width: u8,
    polynomial: u64,
    initial: u64,
    xor: u64,
    reflect_in: bool,
    reflect_out: bool,
}

const fn crc(width: u8, polynomial: u64, initial: u64, xor: u64, reflect: bool) -> Algorithm {
    Algorithm::Crc(Crc { width, polynomial, initial, xor, reflect_in: reflect, reflect_out: reflect })
}

impl Algorithm {
    /// The algorithm of this name in the JSON.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "crc16" | "crc16_custom" => crc(16, 0x8005, 0, 0, true),
            "crc32" | "crc32_custom" => crc(32, 0x04c1_1db7, 0xffff_ffff, 0xffff_ffff, true),
            "crc8_custom" => crc(8, 0x07, 0, 0, false),
            "crc64_custom" => crc(64, 0x1b, 0, 0, true),
            "crcCCITT" => crc(16, 0x1021, 0xffff, 0, false),
            "csum16" | "cksum16" => Self::Csum16,
            "xor16" => Self::Xor16,
            "xor32" => Self::Xor32,
            "identity" => Self::Identity,
            "xxh64" | "bmv2_hash" => Self::Xxh64,
            "round_robin" => Self::RoundRobin,
            _ => return None,
        })
    }

    /// The hash of some bytes. `calls` counts for [`Self::RoundRobin`].
    pub(crate) fn hash(self, bytes: &[u8], calls: &mut u64) -> u64 {
        match self {
            Self::Crc(crc) => crc.compute(bytes),
            Self::Csum16 => u64::from(csum16(bytes)),
            Self::Xor16 => xor_fold(bytes, 2),
            Self::Xor32 => xor_fold(bytes, 4),
            Self::Identity => bytes.iter().take(8).fold(0, |acc, b| (acc << 8) | u64::from(*b)),
            Self::Xxh64 => xxh64(bytes),
            Self::RoundRobin => {
                let n = *calls;
                *calls += 1;
                n
            }
        }
    }
}

impl Crc {
    fn compute(self, bytes: &[u8]) -> u64 {
        let width = u32::from(self.width);
        let (top, mask) = (1u64 << (width - 1), u64::MAX >> (64 - width));
        let mut remainder = self.initial;
        for byte in bytes {
            let byte = if self.reflect_in { byte.reverse_bits() } else { *byte };
            remainder ^= u64::from(byte) << (width - 8);
            for _ in 0..8 {
                let carry = remainder & top != 0;
                remainder = (remainder << 1) & mask;
                if carry {
                    remainder ^= self.polynomial;
                }
            }
        }
        let out = if self.reflect_out { remainder.reverse_bits() >> (64 - width) } else { remainder };
        (out ^ self.xor) & mask
    }
}

/// The Internet checksum (RFC 1071).
pub(crate) fn csum16(bytes: &[u8]) -> u16 {
    let mut sum: u64 = 0;
    let (words, tail) = bytes.as_chunks::<2>();
    for word in words {
        sum += u64::from(u16::from_be_bytes(*word));
    }
    if let [last] = tail {
        sum += u64::from(*last) << 8;
    }
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn xor_fold(bytes: &[u8], n: usize) -> u64 {
    bytes.chunks(n).fold(0, |acc, chunk| {
        let value = chunk.iter().fold(0u64, |v, b| (v << 8) | u64::from(*b));
        acc ^ (value << (8 * (n - chunk.len())))
    })
}

/// XXH64 with seed 0.
fn xxh64(bytes: &[u8]) -> u64 {
    const P1: u64 = 0x9E37_79B1_85EB_CA87;
    const P2: u64 = 0xC2B2_AE3D_27D4_EB4F;
    const P3: u64 = 0x1656_67B1_9E37_79F9;
    const P4: u64 = 0x85EB_CA77_C2B2_AE63;
    const P5: u64 = 0x27D4_EB2F_1656_67C5;
    let round =
        |acc: u64, lane: u64| acc.wrapping_add(lane.wrapping_mul(P2)).rotate_left(31).wrapping_mul(P1);
    let (stripes, mut rest) = bytes.as_chunks::<32>();
    let mut h = if stripes.is_empty() {
        P5
    } else {
        let mut acc = [P1.wrapping_add(P2), P2, 0, 0u64.wrapping_sub(P1)];
        for stripe in stripes {
            let (lanes, _) = stripe.as_chunks::<8>();
            for (a, lane) in acc.iter_mut().zip(lanes) {
                *a = round(*a, u64::from_le_bytes(*lane));
            }
        }
        let [a, b, c, d] = acc;
        let mut h = a
            .rotate_left(1)
            .wrapping_add(b.rotate_left(7))
            .wrapping_add(c.rotate_left(12))
            .wrapping_add(d.rotate_left(18));
        for lane in acc {
            h = (h ^ round(0, lane)).wrapping_mul(P1).wrapping_add(P4);
        }
        h
    };
    h = h.wrapping_add(bytes.len() as u64);
    while let Some((chunk, more)) = rest.split_first_chunk::<8>() {
        h = (h ^ round(0, u64::from_le_bytes(*chunk))).rotate_left(27).wrapping_mul(P1).wrapping_add(P4);
        rest = more;
    }
    if let Some((chunk, more)) = rest.split_first_chunk::<4>() {
        let word = u64::from(u32::from_le_bytes(*chunk));
        h = (h ^ word.wrapping_mul(P1)).rotate_left(23).wrapping_mul(P2).wrapping_add(P3);
        rest = more;
    }
    for byte in rest {
        h = (h ^ u64::from(*byte).wrapping_mul(P5)).rotate_left(11).wrapping_mul(P1);
    }
    h = (h ^ (h >> 33)).wrapping_mul(P2);
    h = (h ^ (h >> 29)).wrapping_mul(P3);
    h ^ (h >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(name: &str, bytes: &[u8]) -> u64 {
        Algorithm::from_name(name).unwrap().hash(bytes, &mut 0)
    }

    #[test]
    fn check_values_of_the_catalogue() {
        // The usual check input of the CRC catalogues.
        let input = b"123456789";
        assert_eq!(hash("crc16", input), 0xbb3d);
        assert_eq!(hash("crc32", input), 0xcbf4_3926);
        assert_eq!(hash("crcCCITT", input), 0x29b1);
        assert_eq!(hash("crc8_custom", input), 0xf4);
        assert_eq!(hash("xxh64", b""), 0xef46_db37_51d8_e999);
        assert_eq!(hash("xxh64", b"a"), 0xd24e_c4f1_a98c_6e5b);
        assert_eq!(hash("xxh64", b"Nobody inspects the spammish repetition"), 0xfbce_a83c_8a37_8bf1);
    }

    #[test]
    fn checksum_of_an_ipv4_header() {
        let header = [
            0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xc0, 0xa8, 0x00, 0x01, 0xc0, 0xa8,
            0x00, 0xc7,
        ];
        assert_eq!(csum16(&header), 0xb861);
        assert_eq!(csum16(&[0xff]), 0x00ff);
        assert_eq!(csum16(&[]), 0xffff);
    }

    #[test]
    fn folds_and_identity() {
        assert_eq!(hash("xor16", &[0x12, 0x34, 0x56, 0x78, 0x9a]), (0x1234 ^ 0x5678 ^ 0x9a00));
        assert_eq!(hash("xor32", &[1, 2, 3, 4, 5]), 0x0102_0304 ^ 0x0500_0000);
        assert_eq!(hash("identity", &[1, 2, 3]), 0x0001_0203);
        assert_eq!(hash("identity", &[1; 9]), 0x0101_0101_0101_0101);
    }
}
