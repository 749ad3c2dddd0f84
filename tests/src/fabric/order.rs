//! Every order in which the packets of a small exchange can arrive.

use std::cmp::Reverse;
use std::time::Duration;

use super::{Call, Event, Fabric, Host, Outcomes, Stuck};
use crate::target::Target;

/// Enumerates orders: at each step one of the packets on their way arrives next, whichever link it is on. The first order is that of
/// sending; [`Orders::advance`] goes on to the next.
#[derive(Debug, Default)]
pub struct Orders {
    /// Per step, which packet is next, and among how many.
    choices: Vec<(usize, usize)>,
    at: usize,
}

impl Orders {
    fn choose(&mut self, among: usize) -> usize {
        if self.at == self.choices.len() {
            self.choices.push((0, among));
        }
        let (chosen, _) = self.choices[self.at];
        self.at += 1;
        chosen
    }

    /// Goes on to the next order; false if that was the last.
    pub fn advance(&mut self) -> bool {
        self.choices.truncate(self.at);
        self.at = 0;
        while let Some((chosen, among)) = self.choices.pop() {
            if chosen + 1 < among {
                self.choices.push((chosen + 1, among));
                return true;
            }
        }
        false
    }

    /// What was chosen at each step: names the order.
    pub fn chosen(&self) -> Vec<usize> {
        self.choices.iter().map(|(chosen, _)| *chosen).collect()
    }
}

impl<T: Target> Fabric<T> {
    /// All ranks make these calls; packets arrive in one of the orders, at one moment: no time passes and no timer fires.
    ///
    /// # Errors
    /// If no packet is on its way and a call has not ended.
    ///
    /// # Panics
    /// If an endpoint refuses a call.
    pub fn run_in_order(&mut self, calls: &[Call], orders: &mut Orders) -> Result<Outcomes, Stuck> {
        let ranks: Vec<usize> = (0..self.world()).collect();
        self.start(&vec![calls.to_vec(); self.world()], &ranks);
        let wanted = calls.len() * self.world();
        let mut on_their_way = Vec::new();
        loop {
            while let Some(Reverse((_, _, event))) = self.queue.pop() {
                if let Event::Arrival(..) = event {
                    on_their_way.push(event);
                }
            }
            if on_their_way.is_empty() {
                break;
            }
            let next = on_their_way.remove(orders.choose(on_their_way.len()));
            self.handle(next);
        }
        let unfinished = wanted - self.finished();
        if unfinished > 0 {
            return Err(Stuck { packets: self.delivered, elapsed: Duration::ZERO, unfinished });
        }
        Ok(self.hosts.iter_mut().map(Host::outcomes).collect())
    }
}
