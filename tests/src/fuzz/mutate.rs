//! Seeded mutations, for a bounded search without a fuzzing engine.

use crate::rng::Rng;

/// Longest input.
const MOST: usize = 1 << 17;

/// Makes inputs from seeds.
#[derive(Debug)]
pub struct Mutator<'a> {
    rng: Rng,
    seeds: &'a [Vec<u8>],
    words: &'a [&'a [u8]],
}

impl<'a> Mutator<'a> {
    /// The mutations of this seed.
    ///
    /// # Panics
    /// Without seeds.
    pub fn new(seed: u64, seeds: &'a [Vec<u8>], words: &'a [&'a [u8]]) -> Self {
        assert!(!seeds.is_empty(), "a target without seeds");
        Self { rng: Rng::new(seed), seeds, words }
    }

    /// A seed with one to eight changes.
    pub fn make(&mut self) -> Vec<u8> {
        let mut input = self.rng.pick(self.seeds);
        for _ in 0..1 + self.rng.below(8) {
            self.change(&mut input);
        }
        input.truncate(MOST);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let rng = &mut self.rng;
        if input.is_empty() {
            input.push(rng.below(256) as u8);
            return;
        }
        let at = rng.below(input.len());
        let most = 1 << rng.below(9);
        let end = (at + 1 + rng.below(most)).min(input.len());
        match rng.below(12) {
            0 | 1 => input[at] ^= 1 << rng.below(8),
            2 | 3 => {
                let any = rng.below(256) as u8;
                input[at] = rng.pick(&[0, 1, 0x7F, 0x80, 0xFF, b'0', b'"', any]);
            }
            4 => input[at] = input[at].wrapping_add(rng.pick(&[1, 0xFF])),
            5 => rng.fill(&mut input[at..end]),
            6 => drop(input.drain(at..end)),
            7 => {
                let copy = input[at..end].to_vec();
                input.splice(at..at, copy);
            }
            8 => input.truncate(at),
            9 => {
                // The head of this one, the tail of another.
                let other = &self.seeds[rng.below(self.seeds.len())];
                input.truncate(at);
                input.extend(&other[rng.below(other.len().max(1)).min(other.len())..]);
            }
            10 if !self.words.is_empty() => {
                let word = self.words[rng.below(self.words.len())];
                input.splice(at..(at + rng.below(word.len() + 1)).min(input.len()), word.iter().copied());
            }
            _ => {
                // A number at its limits.
                let value = rng.pick(&[0u64, 1, u64::MAX, 1 << 31, 1 << 63, 0x7FFF_FFFF_FFFF_FFFF]);
                let bytes = 1 << rng.below(4);
                let end = (at + bytes).min(input.len());
                input[at..end].copy_from_slice(&value.to_be_bytes()[8 - (end - at)..]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutations_differ_and_come_again() {
        let seeds = [vec![1; 40], vec![2; 9], vec![]];
        let made = |seed| {
            let mut mutator = Mutator::new(seed, &seeds, &[b"word"]);
            (0..500).map(|_| mutator.make()).collect::<Vec<_>>()
        };
        let first = made(1);
        assert_eq!(first, made(1));
        assert_ne!(first, made(2));
        let distinct: std::collections::BTreeSet<_> = first.iter().collect();
        assert!(distinct.len() > 400, "{}", distinct.len());
    }
}
