//! The entries that teach a switch a number format: masks and rounding constants (`docs/number-formats.md`, `p4/accumulate.p4`,
//! `p4/round.p4`).

use inca_wire::packet::Format;

use super::accumulate::{self, Align, Halves};
use super::{Entry, Word, accumulate_high, accumulate_low, measure, normalize};

/// The shape of a number format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FormatSpec {
    /// Which format.
    pub format: Format,
    /// w: bits of a narrow lane; accumulator lanes have twice as many.
    pub lane_bits: u8,
    /// Whether blocks have exponents of their own (and results are rounded to a new one).
    pub floating: bool,
}

impl FormatSpec {
    /// The format's shape.
    pub const fn of(format: Format) -> Self {
        match format {
            Format::I32 => Self { format, lane_bits: 32, floating: false },
            Format::Bfp16 => Self { format, lane_bits: 16, floating: true },
        }
    }

    /// Guard bits of a group: how far exponents may be apart for sums to be exact. w - ceil(log2(world)), at most w - 1, and 0
    /// for formats without exponents.
    pub const fn guard_bits(&self, world: u16) -> u16 {
        if !self.floating {
            return 0;
        }
        let log2 = if world <= 1 { 0 } else { u16::BITS - (world - 1).leading_zeros() };
        let most = self.lane_bits as u32 - 1;
        let guard = (self.lane_bits as u32).saturating_sub(log2);
        (if guard > most { most } else { guard }) as u16
    }

    const fn wide_bits(&self) -> u32 {
        2 * self.lane_bits as u32
    }

    /// The same value in every wide lane.
    fn wide(&self, value: u128) -> Word {
        Word::repeat(self.wide_bits(), value)
    }

    /// The low half of every pair of lanes.
    pub fn low_mask(&self) -> Word {
        self.wide((1 << self.lane_bits) - 1)
    }

    /// The high half of every pair of lanes.
    pub fn high_mask(&self) -> Word {
        self.wide(((1 << self.lane_bits) - 1) << self.lane_bits)
    }
}

/// Every entry of one format.
pub fn entries(format: Format) -> Vec<Entry> {
    let spec = FormatSpec::of(format);
    let mut entries = Vec::new();
    for align in Align::ALL {
        let key = accumulate::Key { format, align };
        entries.extend(action(&spec, align).map(|action| accumulate::entry(key, &action).into()));
        entries.push(accumulate_low::entry(key, &low_action(&spec, align)).into());
        entries.push(accumulate_high::entry(key, &high_action(&spec, align)).into());
    }
    entries.push(measure::entry(measure::Key { format }, &measure_action(&spec)).into());
    entries.extend(
        normalizations(&spec).into_iter().map(|(key, action)| Entry::Table(normalize::entry(key, &action))),
    );
    entries
}

/// `None` for partial sums: switches that get them use the tables of one plane.
fn action(spec: &FormatSpec, align: Align) -> Option<accumulate::Action> {
    use accumulate::Action;
    let halves = Halves { low: spec.low_mask(), high: spec.high_mask() };
    match align {
        Align::Clear => Some(Action::Clear),
        Align::Store => Some(Action::Store(halves)),
        Align::Add if spec.floating => Some(Action::Add(halves)),
        Align::Add => Some(Action::AddUnshifted(halves)),
        Align::Raise => Some(Action::Raise(halves)),
        Align::StorePartial | Align::AddPartial | Align::RaisePartial => None,
    }
}

fn low_action(spec: &FormatSpec, align: Align) -> accumulate_low::Action {
    use accumulate_low::Action;
    let half = spec.low_mask();
    match align {
        Align::Clear => Action::Clear,
        Align::Store => Action::Store(half),
        Align::Add => Action::Add(half),
        Align::Raise => Action::Raise(half),
        Align::StorePartial => Action::StorePartial,
        Align::AddPartial => Action::AddPartial,
        Align::RaisePartial => Action::RaisePartial,
    }
}

fn high_action(spec: &FormatSpec, align: Align) -> accumulate_high::Action {
    use accumulate_high::Action;
    let half = spec.high_mask();
    match align {
        Align::Clear => Action::Clear,
        Align::Store => Action::Store(half),
        Align::Add => Action::Add(half),
        Align::Raise => Action::Raise(half),
        Align::StorePartial => Action::StorePartial,
        Align::AddPartial => Action::AddPartial,
        Align::RaisePartial => Action::RaisePartial,
    }
}

fn measure_action(spec: &FormatSpec) -> measure::Action {
    let (narrow, wide) = (u32::from(spec.lane_bits), spec.wide_bits());
    let top = 1u128 << (wide - 1);
    measure::Action {
        ones: spec.wide(1),
        top: spec.wide(top),
        rest: spec.wide(top - 1),
        half: spec.wide(1 << (narrow - 1)),
        low: spec.low_mask(),
        lane_bits: spec.lane_bits,
        top_bit: (wide - 1) as u8,
        fold: (wide % 64) as u8,
    }
}

/// One key per position of the highest bit of the lanes' magnitudes; all that need no shift share one. What has no entry
/// overflows: the table's default.
fn normalizations(spec: &FormatSpec) -> Vec<(normalize::Key, normalize::Action)> {
    use normalize::{Action, Key};
    let (narrow, wide) = (u32::from(spec.lane_bits), spec.wide_bits());
    let format = spec.format;
    let lane = if wide == 64 { u64::MAX } else { (1 << wide) - 1 };
    // Bits at or above a position. The lanes' OR is folded into the low bits; above them is what was folded.
    let from = |bit: u32| (u64::MAX << bit) & lane;
    // T = V + 2^(2w-1) becomes V + 2^(w-1), which fits w bits; the difference is negative in every lane.
    let top = spec.wide(1 << (wide - 1));
    let mut all = vec![(
        Key { format, value: 0, mask: from(narrow - 1) },
        Action::Keep { offset: spec.wide(1 << (narrow - 1)).wrapping_sub(top), lane_bits: spec.lane_bits },
    )];
    let most = if spec.floating { narrow } else { 0 };
    for shift in 1..=most {
        let highest = narrow - 2 + shift;
        let half_less_one = (1u128 << (shift - 1)) - 1;
        // With shift = w the first term is 2^(2w-1) itself: the sum of both may need a bit more than a lane, so each is a word.
        let offset =
            spec.wide(1 << (narrow - 1 + shift)).wrapping_sub(top).wrapping_add(spec.wide(half_less_one));
        all.push((
            Key { format, value: 1 << highest, mask: from(highest) },
            Action::Round {
                shift: shift as u8,
                offset,
                ones: spec.wide(1),
                low: spec.low_mask(),
                lane_bits: spec.lane_bits,
            },
        ));
    }
    all
}

#[cfg(test)]
mod tests;
