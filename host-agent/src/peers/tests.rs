//! Frames and the inbox by themselves, and ranks on the loopback interface.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::time::{Duration, Instant};

use super::frame::{Head, greeting, greets};
use super::inbox::{Found, Inbox, Message};
use super::link::Limit;
use super::{Card, Kind, PeerError, Peers};
use crate::protocol::{Closed, Tensor};

const SOON: Duration = Duration::from_secs(10);

fn lives() -> Option<Closed> {
    None
}

fn group(world: u32) -> Vec<Peers> {
    let mut peers: Vec<_> =
        (0..world).map(|rank| Peers::listen("test", rank, Ipv4Addr::LOCALHOST).expect("listens")).collect();
    let cards: BTreeMap<u32, Card> = (0..).zip(&peers).map(|(rank, peers)| (rank, peers.card())).collect();
    peers.iter_mut().for_each(|peers| peers.introduce(cards.clone()));
    peers
}

fn limit() -> Limit<'static> {
    Limit::new(SOON, &lives)
}

#[test]
fn frames_come_out_as_they_went_in_and_others_are_refused() {
    let card = Card {
        address: SocketAddrV4::new(Ipv4Addr::new(10, 1, 2, 3), 40_000),
        secret: 0x0123_4567_89AB_CDEF,
    };
    assert_eq!(Card::parse(&card.to_bytes()), card);
    assert_eq!(greets(&greeting(7, 3), 7), Some(3));
    assert_eq!(greets(&greeting(7, 3), 8), None);
    let head = Head { kind: Kind::Part, dtype: 9, tag: u32::MAX, elements: 1 << 40, bytes: 1 << 43 };
    assert_eq!(Head::parse(&head.to_bytes()), Some(head));
    assert_eq!(Head::parse(&[0; 24]), None);
    assert_eq!(Head::parse(&Head { elements: 1, bytes: 9, ..head }.to_bytes()), None);
}

#[test]
fn the_inbox_keeps_order_by_sender_kind_and_tag_and_is_bounded() {
    let mut inbox = Inbox::default();
    let message = |kind, tag, byte, len: usize| {
        let head = Head { kind, dtype: 10, tag, elements: len as u64, bytes: len as u64 };
        Message { head, bytes: vec![byte; len] }
    };
    inbox.put(1, message(Kind::Message, 5, 1, 3));
    inbox.put(1, message(Kind::Part, 5, 2, 3));
    inbox.put(1, message(Kind::Message, 5, 3, 3));
    inbox.put(2, message(Kind::Message, 5, 4, 3));
    let first = |inbox: &mut Inbox, rank, kind| match inbox.take(rank, kind, 5) {
        Found::Message(message) => message.bytes[0],
        other => panic!("{other:?}"),
    };
    assert_eq!(first(&mut inbox, 1, Kind::Part), 2);
    assert_eq!(first(&mut inbox, 1, Kind::Message), 1);
    inbox.end(1, "gone".to_owned());
    assert_eq!(first(&mut inbox, 1, Kind::Message), 3, "what had come is still there");
    assert_eq!(inbox.take(1, Kind::Message, 5), Found::Gone("gone".to_owned()));
    assert_eq!(inbox.take(2, Kind::Message, 6), Found::Nothing);

    assert!(inbox.has_room(3, u64::MAX), "one message always may");
    inbox.put(3, message(Kind::Message, 0, 0, 10 << 20));
    assert!(inbox.has_room(3, 6 << 20) && !inbox.has_room(3, 7 << 20) && inbox.has_room(2, 7 << 20));
    assert!(matches!(inbox.take(3, Kind::Message, 0), Found::Message(_)));
    assert!(inbox.has_room(3, 7 << 20));
}

#[test]
fn tensors_arrive_whole_in_order_and_by_tag() {
    let peers = group(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for len in [0usize, 1, 1000, 5_000_000] {
                let tensor = Tensor::I32((0..len as i32).collect());
                peers[0].send(1, (Kind::Message, 1), &tensor.view(), limit()).expect("sends");
            }
            peers[0].send(1, (Kind::Message, 2), &Tensor::U8(vec![7; 3]).view(), limit()).expect("sends");
        });
        // The last message first: what came before it waits, as far as there is room.
        for len in [0usize, 1, 1000] {
            let mut tensor = Tensor::I32(vec![-1; len]);
            peers[1].receive(0, (Kind::Message, 1), tensor.view_mut(), limit()).expect("arrives");
            assert_eq!(tensor, Tensor::I32((0..len as i32).collect()));
        }
        let mut large = Tensor::I32(vec![-1; 5_000_000]);
        peers[1].receive(0, (Kind::Message, 1), large.view_mut(), limit()).expect("arrives");
        assert!(large == Tensor::I32((0..5_000_000).collect()));
        let mut last = Tensor::U8(vec![0; 3]);
        peers[1].receive(0, (Kind::Message, 2), last.view_mut(), limit()).expect("arrives");
        assert_eq!(last, Tensor::U8(vec![7; 3]));
    });
}

#[test]
fn wrong_shapes_ranks_and_deadlines_are_named() {
    let peers = group(2);
    let ones = Tensor::I32(vec![1; 3]);
    peers[0].send(1, (Kind::Message, 0), &ones.view(), limit()).expect("sends");
    let mut two = Tensor::F32(vec![0.0; 2]);
    let error = peers[1].receive(0, (Kind::Message, 0), two.view_mut(), limit()).expect_err("another shape");
    let text = error.to_string();
    assert!(text.contains("sent 3 i32") && text.contains("awaits 2 f32"), "{text}");
    let error = peers[0].send(0, (Kind::Message, 0), &ones.view(), limit()).expect_err("itself");
    assert!(matches!(error, PeerError::Rank { rank: 0, .. }), "{error}");
    let error = peers[0].send(2, (Kind::Message, 0), &ones.view(), limit()).expect_err("nobody");
    assert!(error.to_string().contains("[0, 1]"), "{error}");
    let started = Instant::now();
    let short = Limit::new(Duration::from_millis(50), &lives);
    let error = peers[1].receive(0, (Kind::Message, 9), two.view_mut(), short).expect_err("never sent");
    assert!(matches!(error, PeerError::DeadlineExceeded { rank: 0, tag: 9, .. }), "{error}");
    assert!(started.elapsed() < Duration::from_secs(5));
    let over = || Some(Closed { reason: "test".to_owned(), missing_ranks: vec![1] });
    let error =
        peers[1].receive(0, (Kind::Message, 9), two.view_mut(), Limit::new(SOON, &over)).expect_err("closed");
    assert!(matches!(error, PeerError::Closed { .. }), "{error}");
}

#[test]
fn a_rank_that_goes_is_noticed_and_a_stranger_is_not_listened_to() {
    let mut peers = group(2);
    let card = peers[0].card();
    let mut stranger = TcpStream::connect(card.address).expect("connects");
    stranger.write_all(&greeting(card.secret ^ 1, 1)).expect("writes");
    stranger
        .write_all(&Head { kind: Kind::Message, dtype: 2, tag: 0, elements: 1, bytes: 4 }.to_bytes())
        .expect("writes");
    stranger.write_all(&[1, 2, 3, 4]).expect("writes");
    peers[1].send(0, (Kind::Message, 1), &Tensor::I32(vec![5]).view(), limit()).expect("sends");
    let mut got = Tensor::I32(vec![0]);
    peers[0].receive(1, (Kind::Message, 1), got.view_mut(), limit()).expect("arrives");
    assert_eq!(got, Tensor::I32(vec![5]));
    drop(peers.remove(1));
    let error = peers[0].receive(1, (Kind::Message, 0), got.view_mut(), limit()).expect_err("gone");
    assert!(matches!(error, PeerError::Lost { rank: 1, .. }), "{error}");
}
