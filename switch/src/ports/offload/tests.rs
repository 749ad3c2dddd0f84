//! Joining and splitting, without a kernel: what is joined comes apart as it was.

use super::*;

/// A datagram without UDP checksum.
fn datagram(identification: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; HEADERS];
    frame[..ETHERTYPE].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    set_word(&mut frame, ETHERTYPE, 0x0800);
    frame[ETHERNET] = 0x45;
    frame[ETHERNET + 8] = 64;
    frame[PROTOCOL] = 17;
    frame[ADDRESSES..ADDRESSES + 8].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    set_word(&mut frame, UDP, 40_000);
    set_word(&mut frame, UDP + 2, 9_999);
    frame.extend(payload);
    let len = frame.len();
    set_lengths(&mut frame, len, identification);
    frame
}

/// So many datagrams of one flow; the last has `last` bytes of payload.
fn flow(count: u16, size: usize, last: usize) -> Vec<Vec<u8>> {
    let payload = |i: u16| vec![i as u8; if i + 1 == count { last } else { size }];
    (0..count).map(|i| datagram(7 + i, &payload(i))).collect()
}

fn join(frames: &[Vec<u8>]) -> Joined {
    Joined::first_of(&frames.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// What the kernel carries for frames that were joined.
fn carried(joined: &Joined, frames: &[Vec<u8>]) -> Vec<u8> {
    let payloads = frames[..joined.frames].iter().flat_map(|frame| frame[HEADERS..].to_vec());
    joined.headers.iter().copied().chain(payloads).collect()
}

fn apart(vnet: &VnetHeader, mut frame: Vec<u8>) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    split(vnet, &mut frame, |frame| frames.push(frame.to_vec()));
    frames
}

#[test]
fn joined_datagrams_come_apart_as_they_were() {
    for (count, size, last) in [(2, 1, 1), (3, 1336, 1336), (5, 1336, 20), (40, 1336, 1), (64, 500, 500)] {
        let frames = flow(count, size, last);
        let joined = join(&frames);
        assert_eq!(joined.frames, usize::from(count), "{count} datagrams of {size} and {last} bytes");
        assert_eq!(apart(&joined.vnet, carried(&joined, &frames)), frames, "{count} of {size} and {last}");
    }
}

#[test]
fn no_more_are_joined_than_fit() {
    assert_eq!(join(&flow(70, 100, 100)).frames, MAX_SEGMENTS);
    let frames = flow(60, 9000, 9000);
    let joined = join(&frames);
    assert_eq!(joined.frames, 7, "7 payloads of 9,000 bytes fit into an IPv4 packet");
    assert!(carried(&joined, &frames).len() <= MAX_JOINED);
    // A shorter one ends the row, a longer one begins another.
    let mut frames = flow(4, 100, 100);
    frames[1] = datagram(8, &[1; 50]);
    assert_eq!(join(&frames).frames, 2);
    frames[1] = datagram(8, &[1; 150]);
    assert_eq!(join(&frames).frames, 1);
}

#[test]
fn frames_that_differ_in_more_than_their_payload_stay_apart() {
    let change = |at: usize, value: u8| {
        let mut frames = flow(2, 100, 100);
        frames[1][at] = value;
        let identification = word_at(&frames[1], IDENTIFICATION);
        if at != ETHERNET && at != TOTAL_LEN + 1 && at != IPV4_CHECKSUM {
            let len = frames[1].len();
            set_lengths(&mut frames[1], len, identification);
        }
        frames[1][at] = value;
        join(&frames).frames
    };
    let places = [
        ("destination address of Ethernet", 0),
        ("EtherType", ETHERTYPE),
        ("version and length of the header", ETHERNET),
        ("type of service", ETHERNET + 1),
        ("total length", TOTAL_LEN + 1),
        ("fragment", FRAGMENT + 1),
        ("time to live", ETHERNET + 8),
        ("protocol", PROTOCOL),
        ("checksum of IPv4", IPV4_CHECKSUM),
        ("source address", ADDRESSES),
        ("destination address", ADDRESSES + 4),
        ("source port", UDP),
        ("destination port", UDP + 2),
        ("UDP length", UDP_LEN + 1),
        ("UDP checksum", UDP_CHECKSUM),
    ];
    for (what, at) in places {
        assert_eq!(change(at, 0x77), 1, "{what}");
    }
}

#[test]
fn a_checksum_left_to_the_hardware_is_completed() {
    let mut frame = datagram(1, &[0xab; 33]);
    frame[PROTOCOL] = 6;
    let pseudo = folded(sum(&frame[ADDRESSES..UDP]) + 6 + (frame.len() - UDP) as u64);
    // TCP's checksum is 16 bytes into its header.
    set_word(&mut frame, UDP + 16, pseudo);
    let vnet = Vnet {
        flags: NEEDS_CSUM,
        gso_type: 0,
        hdr_len: 0,
        gso_size: 0,
        csum_start: UDP as u16,
        csum_offset: 16,
    };
    let frames = apart(&vnet.bytes(), frame);
    let [frame] = &frames[..] else { panic!("one frame stays one") };
    let whole = sum(&frame[ADDRESSES..UDP]) + 6 + (frame.len() - UDP) as u64 + sum(&frame[UDP..]);
    assert_eq!(folded(whole), 0xffff);
}

#[test]
fn headers_of_any_content_do_no_harm() {
    let mut state = 1u64;
    let mut next = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as u16
    };
    for round in 0..20_000 {
        let mut frame = datagram(1, &vec![7; usize::from(next() % 200)]);
        let len = frame.len();
        if round % 2 == 0 {
            frame.truncate(usize::from(next()) % len);
        }
        let vnet = Vnet {
            flags: next() as u8 & 1,
            gso_type: (next() % 6) as u8,
            hdr_len: next(),
            gso_size: next() % 300,
            csum_start: next() % 400,
            csum_offset: next() % 40,
        };
        let bytes: usize = apart(&vnet.bytes(), frame.clone()).iter().map(Vec::len).sum();
        assert!(bytes >= frame.len(), "nothing is lost");
    }
}
