//! Every single loss, every double loss, every order, every packet late or twice.

use std::time::Duration;

use super::{Exchange, Tally};
use crate::fabric::{Faults, LATENCY, Orders, PacketId};

/// Loses every packet of the exchange, on every link and in both directions, each in a run of its own. Counts how many packets more
/// each direction of each link carries then.
pub fn single_losses(exchange: &mut Exchange, tally: &mut Tally) {
    for packet in packets(exchange, tally, Faults::none()) {
        let usual = exchange.usual.clone();
        exchange.run(tally, || format!("{packet:?} lost"), Faults::none().drop_packet(packet), packet.2);
        tally.single_losses += 1;
        for (link, sent) in exchange.fabric.sent().sent() {
            let extra = sent.saturating_sub(usual.get(link).copied().unwrap_or(0));
            tally.worst_extra_packets = tally.worst_extra_packets.max(extra);
        }
    }
}

/// Loses every pair of packets: for every single loss, every packet of what follows from it.
pub fn double_losses(exchange: &mut Exchange, tally: &mut Tally) {
    for first in packets(exchange, tally, Faults::none()) {
        let once = Faults::none().drop_packet(first);
        for second in packets(exchange, tally, once.clone()) {
            // The pair is met from its other side too, unless the second is a packet that only the first loss causes.
            if second == first || second < first && exchange.is_usual(second) {
                continue;
            }
            let faults = once.clone().drop_packet(second);
            exchange.run(tally, || format!("{first:?} and {second:?} lost"), faults, first.2);
            tally.double_losses += 1;
        }
    }
}

/// Delivers every packet once more, and every packet late: after each half of a hop's time from now until the exchange is over, and
/// then past the retransmission timeouts that make up for it.
pub fn late_packets(exchange: &mut Exchange, tally: &mut Tally) {
    let begin = exchange.fabric.elapsed();
    let packets = packets(exchange, tally, Faults::none());
    let steps = (exchange.fabric.elapsed() - begin).as_micros() as u32 * 2 / LATENCY.as_micros() as u32;
    let soon = (0..steps).map(|step| LATENCY * step / 2);
    let later = [10, 49, 51, 53, 60, 101, 120, 200].map(Duration::from_millis);
    let delays: Vec<Duration> = soon.chain(later).collect();
    for packet in packets {
        for late in &delays {
            let copied = Faults::none().copy_packet(packet, *late);
            exchange.run(tally, || format!("{packet:?} again after {late:?}"), copied, packet.2);
            let held = Faults::none().hold_packet(packet, *late);
            exchange.run(tally, || format!("{packet:?} late by {late:?}"), held, packet.2);
            tally.late_packets += 2;
        }
    }
}

/// Runs the exchange once for each order in which its packets can arrive, at most `most` of them; true if those were all.
pub fn orders(exchange: &mut Exchange, tally: &mut Tally, most: u64) -> bool {
    let mut orders = Orders::default();
    for _ in 0..most {
        exchange.fabric.renew_quietly(Faults::none(), 0);
        let outcomes = exchange.fabric.run_in_order(&exchange.calls, &mut orders);
        tally.count(&exchange.fabric);
        tally.orders += 1;
        let name = || format!("{:?}, order {:?}", exchange.shape, orders.chosen());
        tally.judge(name, outcomes, &exchange.right);
        if !orders.advance() {
            return true;
        }
    }
    false
}

/// The packets of a run with these faults.
fn packets(exchange: &mut Exchange, tally: &mut Tally, faults: Faults) -> Vec<PacketId> {
    exchange.run(tally, || "to count packets".to_owned(), faults, 0);
    let sent = exchange.fabric.sent().sent().iter();
    sent.flat_map(|(&(link, direction), &count)| (0..count).map(move |number| (link, direction, number)))
        .collect()
}
