//! The entries that teach a switch a number format: masks and rounding constants (`docs/number-formats.md`, `p4/accumulate.p4`,
//! `p4/round.p4`).

use inca_wire::format::{Format, Kind};

use super::accumulate::{self, Align, Halves};
use super::accumulate_plane::Plane;
use super::{Entry, Word, accumulate_plane, measure, normalize};

/// The shape of a number format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FormatSpec {
    /// Which format.
    pub format: Format,
    /// w: bits of a narrow lane; accumulator lanes have twice as many.
    pub lane_bits: u8,
    /// How lanes combine: blocks have exponents of their own, and results are rounded to a new one.
    pub kind: Kind,
}

impl FormatSpec {
    /// The format's shape.
    pub const fn of(format: Format) -> Self {
        Self { format, lane_bits: format.lane_bits() as u8, kind: format.kind() }
    }

    /// Guard bits of a group, see [`Format::guard_bits`]; 0 for a group that is too large, which is refused when it joins.
    pub fn guard_bits(&self, world: u16) -> u16 {
        self.format.guard_bits(world.into()).unwrap_or(0).into()
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

    /// The bit above a narrow lane, in every wide lane.
    fn above(&self) -> Word {
        self.wide(1 << self.lane_bits)
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
        for (plane, half) in [(Plane::Low, spec.low_mask()), (Plane::High, spec.high_mask())] {
            let action = plane_action(&spec, align, half);
            entries.extend(action.map(|action| accumulate_plane::entry(plane, key, &action).into()));
        }
    }
    entries.push(measure::entry(measure::Key { format }, &measure_action(&spec)).into());
    entries.extend(
        normalizations(&spec).into_iter().map(|(key, action)| Entry::Table(normalize::entry(key, &action))),
    );
    entries
}

/// `None` for partial sums: switches that get them use the tables of one plane; and for what a format without exponents never does.
fn action(spec: &FormatSpec, align: Align) -> Option<accumulate::Action> {
    use accumulate::Action;
    let halves = Halves { low: spec.low_mask(), high: spec.high_mask() };
    match (align, spec.kind) {
        (Align::Clear, _) => Some(Action::Clear),
        (Align::Store, _) => Some(Action::Store(halves)),
        (Align::Add, Kind::Block) => Some(Action::Add(halves)),
        (Align::Add, Kind::Integer) => Some(Action::AddUnshifted(halves)),
        (Align::Add, Kind::Max) => {
            Some(Action::KeepLargest { halves, above: spec.above(), lane_bits: spec.lane_bits })
        }
        (Align::Raise, Kind::Block | Kind::Integer) => Some(Action::Raise(halves)),
        _ => None,
    }
}

/// What a plane does, given its half of every pair of lanes.
fn plane_action(spec: &FormatSpec, align: Align, half: Word) -> Option<accumulate_plane::Action> {
    use accumulate_plane::Action;
    let (above, lane_bits) = (spec.above(), spec.lane_bits);
    Some(match (align, spec.kind) {
        (Align::Clear, _) => Action::Clear,
        (Align::Store, _) => Action::Store(half),
        (Align::StorePartial, _) => Action::StorePartial,
        (Align::Add, Kind::Max) => Action::KeepLargest { half, above, lane_bits },
        (Align::AddPartial, Kind::Max) => Action::KeepLargestPartial { above, lane_bits },
        (Align::Raise | Align::RaisePartial, Kind::Max) => return None,
        (Align::Add, _) => Action::Add(half),
        (Align::Raise, _) => Action::Raise(half),
        (Align::AddPartial, _) => Action::AddPartial,
        (Align::RaisePartial, _) => Action::RaisePartial,
    })
}

fn measure_action(spec: &FormatSpec) -> measure::Action {
    use measure::Action;
    let constants = constants(spec);
    match (spec.kind, spec.wide_bits()) {
        (Kind::Max, _) => Action::Nothing,
        (_, 128) => Action::Lanes64Bit(constants),
        (_, 64) => Action::Lanes { constants, fold: [0, 0] },
        (_, 32) => Action::Lanes { constants, fold: [32, 0] },
        (_, _) => Action::Lanes { constants, fold: [32, 16] },
    }
}

fn constants(spec: &FormatSpec) -> measure::Constants {
    let (narrow, wide) = (u32::from(spec.lane_bits), spec.wide_bits());
    let top = 1u128 << (wide - 1);
    measure::Constants {
        ones: spec.wide(1),
        top: spec.wide(top),
        rest: spec.wide(top - 1),
        half: spec.wide(1 << (narrow - 1)),
        low: spec.low_mask(),
        lane_bits: spec.lane_bits,
        top_bit: (wide - 1) as u8,
    }
}

/// One key per position of the highest bit of the lanes' magnitudes; all that need no shift share one. What has no entry
/// overflows: the table's default.
fn normalizations(spec: &FormatSpec) -> Vec<(normalize::Key, normalize::Action)> {
    use normalize::{Action, Key};
    let (narrow, wide) = (u32::from(spec.lane_bits), spec.wide_bits());
    let format = spec.format;
    // Nothing is measured of sort keys, and of 64-bit lanes only what does not fit.
    let whole = Key { format, value: 0, mask: u64::MAX };
    if spec.kind == Kind::Max {
        return vec![(whole, Action::Keep { offset: Word::ZERO, lane_bits: spec.lane_bits })];
    }
    if narrow == 64 {
        let offset = spec.wide(1 << 63).wrapping_sub(spec.wide(1 << 127));
        return vec![(whole, Action::Keep { offset, lane_bits: spec.lane_bits })];
    }
    let lane = if wide == 64 { u64::MAX } else { (1 << wide) - 1 };
    // Bits at or above a position. The lanes' OR is folded into the low bits; above them is what was folded.
    let from = |bit: u32| (u64::MAX << bit) & lane;
    // T = V + 2^(2w-1) becomes V + 2^(w-1), which fits w bits; the difference is negative in every lane.
    let top = spec.wide(1 << (wide - 1));
    let mut all = vec![(
        Key { format, value: 0, mask: from(narrow - 1) },
        Action::Keep { offset: spec.wide(1 << (narrow - 1)).wrapping_sub(top), lane_bits: spec.lane_bits },
    )];
    let most = if spec.kind == Kind::Block { narrow } else { 0 };
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
