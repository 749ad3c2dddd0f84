use super::*;

fn packets(sizes: &[(usize, usize)]) -> Vec<OutgoingPacket> {
    let mut start = 0;
    sizes
        .iter()
        .map(|&(tree, len)| {
            let packet = OutgoingPacket { tree, start, len };
            start += len;
            packet
        })
        .collect()
}

#[test]
fn runs_are_of_one_tree_and_equal_size_but_for_a_shorter_last() {
    let all = packets(&[(0, 100), (0, 100), (0, 40), (0, 100), (1, 100), (1, 200)]);
    let mut rest = &all[..];
    let mut lengths = Vec::new();
    while let Some(next) = run(rest, 16) {
        lengths.push(next.len());
        rest = &rest[next.len()..];
    }
    assert_eq!(lengths, [3, 1, 1, 1]);
    assert_eq!(run(&packets(&[(0, 9); 10]), 4).map(<[_]>::len), Some(4));
    assert_eq!(run(&packets(&[(0, 8232); 10]), 16).map(<[_]>::len), Some(7), "at most 65507 bytes");
    assert!(run(&[], 16).is_none());
}

#[test]
fn datagrams_cross_the_loopback_unchanged() {
    let receiver = DataSocket::bind(Ipv4Addr::LOCALHOST).expect("bind");
    let destination = receiver.local_addr().expect("address");
    let mut receiver = DataSocket::new(receiver).expect("receiver");
    let mut sender = DataSocket::new(DataSocket::bind(Ipv4Addr::LOCALHOST).expect("bind")).expect("sender");
    let mut batch = TransmitBatch::new(8);
    for (index, len) in [1320usize, 1320, 1320, 296, 40, 1320].into_iter().enumerate() {
        batch.push_for_test(0, &vec![index as u8; len]);
    }
    let mut next = 0;
    assert!(sender.send(&batch, &mut next, &[destination]));
    assert_eq!(next, 6);
    let mut received = Vec::new();
    // The loopback delivers within the send, so everything is there.
    while receiver.receive(|_, datagram| received.push(datagram.to_vec())).expect("receive") {}
    let expected: Vec<_> = batch.packets().iter().map(|packet| batch.contents(packet).to_vec()).collect();
    assert_eq!(received, expected);
}
