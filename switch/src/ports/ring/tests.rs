//! Rings on real packet sockets: a veth pair in a network namespace of its own.

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;
use crate::ports::{PacketSocket, PortSpec, PortStats, Receive, RxBatch};

/// The kernel's queue per processor is shared with all traffic of the machine: more at once could be lost there.
const BURST: usize = 100;

#[test]
fn rings_are_bounded_and_hold_bursts() {
    for mtu in [68, 1500, 1501, 2000, 4000, 9000, 9500, 16_000, 65_535, 1 << 30] {
        let Layout { slot, slots_per_block, blocks } = Layout::of(mtu);
        assert!(slot >= (SLOT_HEADERS + LINK_HEADER + mtu).min(MAX_SLOT), "{mtu}");
        assert_eq!((slot % SLOT_ALIGN, BLOCK / slot), (0, slots_per_block), "{mtu}");
        assert!((RING_BYTES..=2 * RING_BYTES).contains(&(blocks * BLOCK)), "{mtu}");
        assert!(blocks * slots_per_block >= LEAST_SLOTS, "{mtu}");
    }
    let slots = |mtu| Layout::of(mtu).blocks * Layout::of(mtu).slots_per_block;
    // BMv2's rings hold 1,000 and 220.
    assert_eq!((slots(1500), slots(9500)), (1256, 270));
}

/// Runs `test` in a thread with a network namespace of its own, or says why not.
fn in_namespace(name: &str, test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(move || {
        // SAFETY: takes no pointers; it changes the namespace of this thread alone.
        let ours = unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0;
        if ours {
            test();
        }
        ours
    });
    match thread.join() {
        Ok(true) => {}
        Ok(false) => eprintln!("skipped: {name}: no permission to make a network namespace"),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn run(command: &str) {
    let mut words = command.split(' ');
    let status = Command::new(words.next().unwrap()).args(words).status().expect(command);
    assert!(status.success(), "{command}");
}

/// Waits until the end of a new link may send: the kernel gets round to it when it has noticed that the other end is up.
fn settle(end: &str) {
    let deadline = Instant::now() + Duration::from_secs(10);
    let waits = || {
        let shown = Command::new("ip").args(["-o", "link", "show", end]).output().expect("the command ip");
        String::from_utf8_lossy(&shown.stdout).contains("qdisc noop ")
    };
    while waits() {
        assert!(Instant::now() < deadline, "{end} does not come up");
    }
}

/// Takes a link down and up; then this end may send at once.
fn restart(end: &str) {
    run(&format!("ip link set {end} down"));
    run(&format!("ip link set {end} up"));
}

/// Sends until something gets through.
fn reach(from: &PacketSocket, to: &PacketSocket) {
    let probe = frame(0, 60);
    let reached = std::iter::repeat_with(|| {
        from.send(&[&probe], &mut PortStats::default());
        !receive(to, 1).is_empty()
    });
    assert!(reached.take(20).any(|reached| reached), "no frame gets through");
}

fn open(interface: &str, receive: Receive) -> PacketSocket {
    let socket = PacketSocket::open(&PortSpec { port: 1, interface: interface.to_owned(), receive }).unwrap();
    assert_eq!(socket.has_ring(), receive == Receive::Ring);
    socket
}

/// A veth pair of this MTU: the far end, and the near end with a ring.
fn wire(mtu: usize) -> (PacketSocket, PacketSocket) {
    run("ip link add near type veth peer name far");
    for end in ["near", "far"] {
        // No router solicitations between the frames of the test.
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{end}/disable_ipv6"), "1");
        run(&format!("ip link set {end} mtu {mtu} up"));
    }
    ["near", "far"].into_iter().for_each(settle);
    (open("far", Receive::Calls), open("near", Receive::Ring))
}

fn send(socket: &PacketSocket, frames: &[Vec<u8>]) {
    let parts: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
    let mut stats = PortStats::default();
    assert_eq!((socket.send(&parts, &mut stats), stats.tx_failed), (frames.len(), 0));
}

/// What comes until there are `n` frames or nothing has come for a while; `true`: cut.
fn receive(socket: &PacketSocket, n: usize) -> Vec<(Vec<u8>, bool)> {
    let (mut batch, mut got) = (RxBatch::default(), Vec::new());
    let deadline = Instant::now() + Duration::from_secs(10);
    while got.len() < n && Instant::now() < deadline {
        let mut poll = libc::pollfd { fd: socket.fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: points to one structure that lives through the call.
        if unsafe { libc::poll(&mut poll, 1, 500) } == 0 {
            break;
        }
        while socket.receive(&mut batch).is_ok() {
            batch.drain(|frame, cut| got.push((frame.to_vec(), cut)));
        }
    }
    got
}

/// What came whole.
fn whole(socket: &PacketSocket, n: usize) -> Vec<Vec<u8>> {
    receive(socket, n)
        .into_iter()
        .map(|(frame, cut)| (!cut).then_some(frame).expect("a whole frame"))
        .collect()
}

/// Compares without printing megabytes.
#[track_caller]
fn same(got: &[Vec<u8>], sent: &[Vec<u8>]) {
    let differs = got.iter().zip(sent).position(|(got, sent)| got != sent);
    assert_eq!((differs, got.len()), (None, sent.len()), "first difference, frames that came");
}

fn nothing(socket: &PacketSocket) -> bool {
    let got = socket.receive(&mut RxBatch::default());
    got.is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock)
}

/// A frame of a local experiment's EtherType.
fn frame(number: usize, len: usize) -> Vec<u8> {
    let mut frame = vec![0xEE; 12];
    frame.extend([0x88, 0xB5]);
    frame.extend((number as u32).to_be_bytes());
    frame.extend((18..len).map(|i| (i * 7 + number) as u8));
    frame
}

/// A datagram without UDP checksum, as they are joined.
fn datagram(number: usize, payload: usize) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00];
    f.extend([0x45, 0]);
    f.extend((28 + payload as u16).to_be_bytes());
    f.extend((number as u16).to_be_bytes());
    f.extend([0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let sum: u32 = f[14..].as_chunks::<2>().0.iter().map(|w| u32::from(u16::from_be_bytes(*w))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    f[24..26].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    f.extend([0x10, 0, 0x20, 0]);
    f.extend((8 + payload as u16).to_be_bytes());
    f.extend([0, 0]);
    f.extend((0..payload).map(|i| (i * 3 + number) as u8));
    f
}

#[test]
fn frames_of_all_kinds_keep_their_order() {
    in_namespace("frames_of_all_kinds_keep_their_order", || {
        let (far, near) = wire(1500);
        let slots = Layout::of(1500).blocks * Layout::of(1500).slots_per_block;
        // Another socket has the same frames in the kernel's hands at the same time.
        let calls = open("near", Receive::Calls);
        // Runs of 1 to 50 alike datagrams travel as one frame of up to 59 KiB, which no slot holds; other frames alone.
        let mut sent = 0;
        let mut turns = 0;
        while sent < 4 * slots {
            let burst: Vec<Vec<u8>> = (0..BURST)
                .map(|i| match (turns + i / 50) % 3 {
                    0 => frame(sent + i, 60 + (sent + i) % 1454),
                    1 => datagram(i, 1172),
                    _ if i % 7 == 0 => frame(i, 1514),
                    _ => datagram(i, 900),
                })
                .collect();
            send(&far, &burst);
            let got = whole(&near, burst.len());
            same(&got, &burst);
            same(&whole(&calls, burst.len()), &burst);
            sent += burst.len();
            turns += 1;
        }
        drop(calls);
        assert!(nothing(&near));
        assert_eq!(near.dropped(), 0);
        // More slots than the ring has were filled: joined frames took one for many.
        let frames: Vec<Vec<u8>> = (0..BURST).map(|i| frame(i, 300)).collect();
        for _ in 0..=3 * slots / BURST {
            send(&far, &frames);
            same(&whole(&near, BURST), &frames);
        }
        assert_eq!(near.dropped(), 0);
    });
}

#[test]
fn jumbo_frames_have_slots_of_their_size() {
    in_namespace("jumbo_frames_have_slots_of_their_size", || {
        let (far, near) = wire(9500);
        let lens = [60, 1514, 4000, 9513, 9514];
        let frames: Vec<Vec<u8>> = (0..50).map(|i| frame(i, lens[i % lens.len()])).collect();
        for _ in 0..20 {
            send(&far, &frames);
            same(&whole(&near, frames.len()), &frames);
        }
        // Larger than when the ring was made.
        run("ip link set near mtu 30000");
        run("ip link set far mtu 30000");
        let frames: Vec<Vec<u8>> = (0..50).map(|i| frame(i, 60 + i * 500)).collect();
        send(&far, &frames);
        same(&whole(&near, frames.len()), &frames);
    });
}

#[test]
fn a_full_ring_keeps_the_first_and_counts_the_rest() {
    in_namespace("a_full_ring_keeps_the_first_and_counts_the_rest", || {
        let (far, near) = wire(9500);
        let slots = Layout::of(9500).blocks * Layout::of(9500).slots_per_block;
        for round in 0..3 {
            let frames: Vec<Vec<u8>> = (0..slots + 90).map(|i| frame(i + round, 100)).collect();
            for burst in frames.chunks(BURST) {
                send(&far, burst);
            }
            // All were sent before any is read: the kernel hands them over within the call that sends, or soon after.
            let deadline = Instant::now() + Duration::from_secs(10);
            while near.dropped() < 90 * (round as u64 + 1) && Instant::now() < deadline {
                std::thread::yield_now();
            }
            let got = whole(&near, slots);
            same(&got, &frames[..slots]);
            assert_eq!(near.dropped(), 90 * (round as u64 + 1));
        }
    });
}

#[test]
fn slots_that_are_held_are_not_taken_again() {
    in_namespace("slots_that_are_held_are_not_taken_again", || {
        let (far, near) = wire(9500);
        let slots = Layout::of(9500).blocks * Layout::of(9500).slots_per_block;
        let frames: Vec<Vec<u8>> = (0..slots).map(|i| frame(i, 100)).collect();
        frames.chunks(BURST).for_each(|burst| send(&far, burst));
        let mut batches = Vec::new();
        loop {
            let mut batch = RxBatch::default();
            match near.receive(&mut batch) {
                Ok(_) => batches.push(batch),
                Err(e) => break assert_eq!(e.kind(), io::ErrorKind::WouldBlock),
            }
        }
        // The first slot's turn again, but its frame is held still.
        assert!(nothing(&near));
        let mut got = Vec::new();
        batches.iter_mut().for_each(|batch| batch.drain(|frame, _| got.push(frame.to_vec())));
        same(&got, &frames);
        // One batch is dropped, one is filled anew without being looked at: the ring goes on.
        for _ in 0..4 {
            send(&far, &frames[..BURST]);
            let mut batch = RxBatch::default();
            while near.receive(&mut batch).is_ok() {}
            send(&far, &frames[..1]);
            assert_eq!(near.receive(&mut batch).unwrap(), 1);
        }
        send(&far, &frames[..BURST]);
        same(&whole(&near, BURST), &frames[..BURST]);
        // A batch outlives its socket.
        send(&far, &frames[..3]);
        let mut batch = RxBatch::default();
        assert_eq!(near.receive(&mut batch).unwrap(), 3);
        drop(near);
        got.clear();
        batch.drain(|frame, _| got.push(frame.to_vec()));
        same(&got, &frames[..3]);
    });
}

#[test]
fn what_the_queue_has_no_room_for_is_cut() {
    in_namespace("what_the_queue_has_no_room_for_is_cut", || {
        let (far, near) = wire(1500);
        // The least that there is: one joined frame fills it.
        // SAFETY: the descriptor is open, and `borrowed` does not close it.
        let borrowed = unsafe {
            std::mem::ManuallyDrop::new(<Socket as std::os::fd::FromRawFd>::from_raw_fd(near.fd()))
        };
        borrowed.set_recv_buffer_size(1).unwrap();
        let joined: Vec<Vec<u8>> = (0..40).map(|i| datagram(i, 1172)).collect();
        let small = frame(7, 60);
        for _ in 0..3 {
            send(&far, &joined);
            send(&far, &joined);
            send(&far, std::slice::from_ref(&small));
            let got = receive(&near, 42);
            assert_eq!(got.iter().filter(|(_, cut)| *cut).count(), 1);
            let (first, rest) = got.split_at(40);
            assert!(first.iter().zip(&joined).all(|((got, cut), sent)| got == sent && !cut));
            assert!(rest[0].1 && rest[1] == (small.clone(), false), "{}", rest.len());
        }
    });
}

#[test]
fn own_frames_stay_out_and_tags_are_as_with_calls() {
    in_namespace("own_frames_stay_out_and_tags_are_as_with_calls", || {
        let (far, near) = wire(1500);
        let calls = open("near", Receive::Calls);
        send(&near, &[frame(1, 60)]);
        // The other socket of the interface sees it, and so it was there to be seen.
        assert_eq!(whole(&far, 1), [frame(1, 60)]);
        assert!(nothing(&near));
        let mut tagged = frame(2, 100);
        tagged.splice(12..12, [0x81, 0x00, 0x00, 0x2A]);
        send(&far, &[tagged]);
        assert_eq!(whole(&near, 1), [frame(2, 100)]);
        assert_eq!(whole(&calls, 1).last(), Some(&frame(2, 100)));
        // With the tag in front of the largest payload, and as one frame with others.
        let mut tagged = frame(3, 1514);
        tagged.splice(12..12, [0x81, 0x00, 0x00, 0x2A]);
        send(&far, &[tagged]);
        assert_eq!(whole(&near, 1), [frame(3, 1514)]);
    });
}

#[test]
fn links_go_down_and_sockets_are_opened_again() {
    in_namespace("links_go_down_and_sockets_are_opened_again", || {
        let (far, near) = wire(1500);
        let joined: Vec<Vec<u8>> = (0..40).map(|i| datagram(i, 1172)).collect();
        send(&far, &joined);
        same(&whole(&near, 40), &joined);
        for _ in 0..3 {
            restart("near");
            // The sockets know that the link was down; neither loses a frame for it, sent, small or joined.
            send(&near, &[frame(1, 60)]);
            assert_eq!(whole(&far, 1), [frame(1, 60)]);
            restart("near");
            reach(&far, &near);
            send(&far, &joined);
            same(&whole(&near, 40), &joined);
        }
        // Nor does a joined frame that is there before the error was read. The other end may still be told to wait: then again.
        let got = std::iter::repeat_with(|| {
            restart("near");
            send(&far, &joined);
            whole(&near, 40)
        });
        same(&got.take(20).find(|got| !got.is_empty()).expect("frames that get through"), &joined);
        // What a link that goes down leaves to be read is the error.
        run("ip link set near down");
        let down = near.receive(&mut RxBatch::default()).unwrap_err();
        assert_eq!(down.raw_os_error(), Some(libc::ENETDOWN));
        assert!(nothing(&near));
        run("ip link set near up");
        reach(&far, &near);
        drop(near);
        for number in 0..20 {
            let near = open("near", Receive::Ring);
            send(&far, &[frame(number, 60)]);
            assert_eq!(whole(&near, 1), [frame(number, 60)]);
        }
    });
}

#[test]
fn edges_wake_whoever_reads_until_nothing_is_there() {
    in_namespace("edges_wake_whoever_reads_until_nothing_is_there", || {
        let (far, near) = wire(1500);
        let mut poll = mio::Poll::new().unwrap();
        let source = near.fd();
        let interest = mio::Interest::READABLE | mio::Interest::WRITABLE;
        poll.registry().register(&mut mio::unix::SourceFd(&source), mio::Token(0), interest).unwrap();
        const FRAMES: usize = 20_000;
        let sent: Arc<Vec<Vec<u8>>> = Arc::new((0..FRAMES).map(|i| frame(i, 60 + i % 200)).collect());
        let acknowledged = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let sender = std::thread::spawn({
            let (sent, acknowledged) = (Arc::clone(&sent), Arc::clone(&acknowledged));
            move || {
                let deadline = Instant::now() + Duration::from_secs(30);
                for (i, burst) in sent.chunks(17).enumerate() {
                    // Few are under way, so that none is lost, and yet some come while others are read.
                    while i * 17 > acknowledged.load(Ordering::Acquire) + BURST && Instant::now() < deadline {
                        std::thread::yield_now();
                    }
                    send(&far, burst);
                }
            }
        });
        let mut events = mio::Events::with_capacity(8);
        let (mut batch, mut got) = (RxBatch::default(), 0);
        while got < FRAMES {
            poll.poll(&mut events, Some(Duration::from_secs(10))).unwrap();
            assert!(!events.is_empty(), "not told of a frame after {got}");
            while near.receive(&mut batch).is_ok() {
                batch.drain(|frame, cut| {
                    assert!(!cut && frame == sent[got], "frame {got}");
                    got += 1;
                });
                acknowledged.store(got, Ordering::Release);
            }
        }
        sender.join().unwrap();
        assert_eq!(near.dropped(), 0);
    });
}
