//! The packet thread on real packet sockets: veth pairs in a network namespace of their own.

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Event, Running, RuntimeError, StartError, start};
use crate::control::Replica;
use crate::ports::{Loss, PacketSocket, PortError, PortSpec, PortStats, Receive, RxBatch};
use crate::program::Program;
use crate::switch::SwitchConfig;

mod threads;

const PATIENCE: Duration = Duration::from_secs(10);

fn program() -> Arc<Program> {
    Arc::new(Program::from_json(include_str!("../../tests/programs/replication.json")).unwrap())
}

/// Runs `test` in a thread with a network namespace of its own; `false` if that is not permitted here.
fn in_namespace(test: impl FnOnce() + Send + 'static) -> bool {
    let thread = std::thread::spawn(move || {
        // SAFETY: takes no pointers; it changes the namespace of this thread alone.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            return false;
        }
        test();
        true
    });
    match thread.join() {
        Ok(ran) => ran,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Runs a test or says why it was skipped.
fn with_namespace(name: &str, test: impl FnOnce() + Send + 'static) {
    if !in_namespace(test) {
        eprintln!("skipped: {name}: no permission to make a network namespace");
    }
}

fn ip(args: &str) {
    let status = Command::new("ip").args(args.split(' ')).status().expect("the command ip");
    assert!(status.success(), "ip {args}");
}

fn link(name: &str) -> String {
    let shown = Command::new("ip").args(["-o", "link", "show", name]).output().expect("the command ip");
    String::from_utf8_lossy(&shown.stdout).into_owned()
}

/// Switch ports with a host's end of the wire each.
fn wires(ports: &[u16]) -> (Vec<PortSpec>, Vec<PacketSocket>) {
    let mut specs = Vec::new();
    let mut hosts = Vec::new();
    for port in ports {
        ip(&format!("link add s{port} type veth peer name h{port}"));
        for end in [format!("s{port}"), format!("h{port}")] {
            // No router solicitations between the frames of the test.
            let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{end}/disable_ipv6"), "1");
            ip(&format!("link set {end} mtu 9500 up"));
        }
        // The end that was up first may send when the kernel has noticed that the other one is.
        let deadline = Instant::now() + PATIENCE;
        while link(&format!("s{port}")).contains("qdisc noop ") {
            assert!(Instant::now() < deadline, "s{port} does not come up");
        }
        let spec = |name: String| PortSpec { port: *port, interface: name, receive: Receive::default() };
        specs.push(spec(format!("s{port}")));
        hosts.push(PacketSocket::open(&spec(format!("h{port}"))).unwrap());
    }
    (specs, hosts)
}

/// Frames that a host gets until there are `n` of them.
fn receive(host: &PacketSocket, n: usize) -> Vec<Vec<u8>> {
    let got = receive_within(host, n, PATIENCE);
    assert_eq!(got.len(), n, "frames that came");
    got
}

/// A burst may lose frames before the switch or behind it: the kernel's queue per processor is shared with all other traffic of
/// the machine. So a test with bursts gets a few attempts.
fn attempts(attempt: impl FnMut() -> bool) {
    assert!(std::iter::repeat_with(attempt).take(5).any(|fine| fine), "none of the attempts");
}

/// Forgets what an attempt before left.
fn drain(host: &PacketSocket) {
    let mut batch = RxBatch::default();
    while host.receive(&mut batch).is_ok_and(|n| n > 0) {}
}

/// Frames that a host gets until there are `n` of them or the time is over.
fn receive_within(host: &PacketSocket, n: usize, patience: Duration) -> Vec<Vec<u8>> {
    let deadline = Instant::now() + patience;
    let mut batch = RxBatch::default();
    let mut got = Vec::new();
    while got.len() < n {
        if Instant::now() >= deadline {
            break;
        }
        let mut poll = libc::pollfd { fd: host.fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: points to one structure that lives through the call.
        unsafe { libc::poll(&mut poll, 1, 100) };
        if host.receive(&mut batch).is_ok() {
            batch.drain(|frame, _| got.push(frame.to_vec()));
        }
    }
    got
}

fn send(host: &PacketSocket, frames: &[&[u8]]) {
    let mut stats = PortStats::default();
    assert_eq!(host.send(frames, &mut stats), frames.len());
    assert_eq!(stats.tx_failed, 0);
}

/// A frame of the program: operation, count, note, then enough to be a frame.
fn frame(op: u8, count: u8, len: usize) -> Vec<u8> {
    let mut f = vec![op, count, 0, 0];
    f.resize(len, 0xEE);
    f
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

fn finish(running: Running) {
    running.handle.stop().unwrap();
    running.thread.join().unwrap();
    assert_eq!(running.handle.with_blocking(|_| ()), Err(RuntimeError::Stopped));
}

#[test]
fn frames_cross_in_order_and_jumbo_ones_too() {
    with_namespace("frames_cross_in_order_and_jumbo_ones_too", || {
        let (specs, hosts) = wires(&[1, 4]);
        attempts(|| {
            drain(&hosts[1]);
            let running = start(SwitchConfig::default(), &specs, &Loss::default(), Some(program())).unwrap();
            let sent: Vec<Vec<u8>> = (0..200).map(|i| frame(5, i as u8, 60 + i * 47)).collect();
            let parts: Vec<&[u8]> = sent.iter().map(Vec::as_slice).collect();
            send(&hosts[0], &parts);
            let got = receive_within(&hosts[1], 200, Duration::from_secs(2));
            let stats = block_on(running.handle.stats()).unwrap();
            finish(running);
            if got.len() < 200 {
                return false;
            }
            assert_eq!(got, sent);
            assert_eq!((stats.ports[0].0, stats.ports[0].1.rx_frames), (1, 200));
            // The switch's own frames do not come back to it.
            assert_eq!(
                (stats.ports[1].0, stats.ports[1].1.tx_frames, stats.ports[1].1.rx_frames),
                (4, 200, 0)
            );
            true
        });
    });
}

#[test]
fn control_and_events_between_packets() {
    with_namespace("control_and_events_between_packets", || {
        let (specs, hosts) = wires(&[1]);
        // No program yet: frames are dropped, control says so.
        let mut running = start(SwitchConfig::default(), &specs, &Loss::default(), None).unwrap();
        assert_eq!(running.handle.with_blocking(|_| ()), Err(RuntimeError::NoProgram));
        block_on(running.handle.load(program())).unwrap();
        let replicas = [(255, 7), (1, 8)].map(|(port, instance)| Replica { port, instance });
        let insert = running.handle.with_blocking(move |sw| sw.multicast_insert(1, replicas.to_vec()));
        assert_eq!(insert, Ok(Ok(())));
        send(&hosts[0], &[&frame(1, 0, 60)]);
        let event = block_on(async { tokio::time::timeout(PATIENCE, running.events.recv()).await });
        let mut want = frame(1, 1, 60);
        want[3] = 7;
        assert_eq!(event.unwrap(), Some(Event::PacketIn(want.clone())));
        want[3] = 8;
        assert_eq!(receive(&hosts[0], 1), [want.clone()]);
        // A frame handed over by the control plane.
        running.handle.inject(9, frame(1, 0, 60)).unwrap();
        assert_eq!(receive(&hosts[0], 1), [want]);
        finish(running);
    });
}

#[test]
fn loss_is_counted_and_repeats() {
    with_namespace("loss_is_counted_and_repeats", || {
        let (specs, hosts) = wires(&[1, 4]);
        // `None`: the kernel lost a frame.
        let survivors = || {
            drain(&hosts[1]);
            let loss =
                Loss::new(0.0, &["1:rx:0.3".parse().unwrap(), "4:tx:0.2".parse().unwrap()], 5).unwrap();
            let running = start(SwitchConfig::default(), &specs, &loss, Some(program())).unwrap();
            let sent: Vec<Vec<u8>> = (0..250).map(|i| frame(5, i as u8, 60)).collect();
            send(&hosts[0], &sent.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let deadline = Instant::now() + Duration::from_secs(2);
            let stats = loop {
                let stats = block_on(running.handle.stats()).unwrap();
                if stats.ports[0].1.rx_frames + stats.ports[0].1.rx_lost == 250 {
                    break Some(stats);
                }
                if Instant::now() >= deadline {
                    break None;
                }
                std::thread::yield_now();
            };
            finish(running);
            let stats = stats?;
            let (rx, tx) = (stats.ports[0].1, stats.ports[1].1);
            assert_eq!(rx.rx_frames, tx.tx_frames + tx.tx_lost);
            assert!((40..110).contains(&rx.rx_lost) && (15..70).contains(&tx.tx_lost), "{stats:?}");
            let got = receive_within(&hosts[1], tx.tx_frames as usize, Duration::from_secs(2));
            (got.len() as u64 == tx.tx_frames).then_some(got)
        };
        attempts(|| match (survivors(), survivors()) {
            (Some(first), Some(second)) => {
                assert_eq!(first, second);
                true
            }
            _ => false,
        });
    });
}

#[test]
fn a_link_that_goes_down_and_up() {
    with_namespace("a_link_that_goes_down_and_up", || {
        let (specs, hosts) = wires(&[1, 4]);
        let running = start(SwitchConfig::default(), &specs, &Loss::default(), Some(program())).unwrap();
        send(&hosts[0], &[&frame(5, 1, 60)]);
        assert_eq!(receive(&hosts[1], 1).len(), 1);
        ip("link set s4 down");
        send(&hosts[0], &[&frame(5, 2, 60)]);
        let deadline = Instant::now() + PATIENCE;
        while block_on(running.handle.stats()).unwrap().ports[1].1.tx_failed == 0 {
            assert!(Instant::now() < deadline);
            std::thread::yield_now();
        }
        ip("link set s4 up");
        ip("link set s1 down");
        ip("link set s1 up");
        // Both directions work again.
        let replicas = vec![Replica { port: 1, instance: 0 }, Replica { port: 4, instance: 0 }];
        running.handle.with_blocking(move |sw| sw.multicast_insert(1, replicas)).unwrap().unwrap();
        // The host's socket was told once that its link was down.
        let _ = hosts[1].receive(&mut RxBatch::default());
        send(&hosts[0], &[&frame(1, 3, 60)]);
        assert_eq!(receive(&hosts[1], 1), [frame(1, 4, 60)]);
        finish(running);
    });
}

/// The kernel says of such a frame what it says when a queue is full.
#[test]
fn frames_that_the_far_end_never_takes_hold_up_no_others() {
    with_namespace("frames_that_the_far_end_never_takes_hold_up_no_others", || {
        let (specs, hosts) = wires(&[1, 4]);
        let running = start(SwitchConfig::default(), &specs, &Loss::default(), Some(program())).unwrap();
        attempts(|| {
            send(&hosts[0], &[&frame(5, 0, 60)]);
            !receive_within(&hosts[1], 1, Duration::from_secs(1)).is_empty()
        });
        ip("link set h4 mtu 900");
        for count in 1..=20 {
            send(&hosts[0], &[&frame(5, count, 1400), &frame(5, count, 60)]);
        }
        let got = receive(&hosts[1], 20);
        assert_eq!(got, (1..=20).map(|count| frame(5, count, 60)).collect::<Vec<_>>());
        // Kernels that drop such a frame without a word count it as sent.
        let failed = block_on(running.handle.stats()).unwrap().ports[1].1.tx_failed;
        assert!([0, 20].contains(&failed), "{failed} of 20 frames failed");
        // Once the far end takes them they arrive.
        ip("link set h4 mtu 9500");
        send(&hosts[0], &[&frame(5, 21, 1400)]);
        assert_eq!(receive(&hosts[1], 1), [frame(5, 21, 1400)]);
        finish(running);
    });
}

#[test]
fn ports_that_can_not_be() {
    let spec = |text: &str| text.parse::<PortSpec>();
    for text in ["", "eth1", "1@", "@eth1", "511@eth1", "x@eth1", "-1@eth1"] {
        assert!(matches!(spec(text), Err(PortError::Form { .. })), "{text}");
    }
    let same_port = [spec("1@a").unwrap(), spec("1@b").unwrap()];
    let same_interface = [spec("1@a").unwrap(), spec("2@a").unwrap()];
    for specs in [&same_port, &same_interface] {
        let error = start(SwitchConfig::default(), specs, &Loss::default(), None).unwrap_err();
        assert!(matches!(error, StartError::Port(PortError::Twice { .. })));
    }
    let cpu = [spec("255@a").unwrap()];
    let error = start(SwitchConfig::default(), &cpu, &Loss::default(), None).unwrap_err();
    assert!(matches!(error, StartError::Port(PortError::Cpu { port: 255, .. })), "{error}");
    let lossy = Loss::new(0.0, &["2:rx:0.5".parse().unwrap()], 0).unwrap();
    let error = start(SwitchConfig::default(), &[spec("1@a").unwrap()], &lossy, None).unwrap_err();
    assert_eq!(error.to_string(), "loss on port 2: there is no such port; ports are [1]");
    let missing = [spec("1@nowhere0").unwrap()];
    let error = start(SwitchConfig::default(), &missing, &Loss::default(), None).unwrap_err();
    assert!(error.to_string().starts_with("port 1@nowhere0: no such interface"), "{error}");
}
