//! Rules that the exhaustive check breaks on purpose: it must notice.

use super::TreeConfig;

/// A rule of the slot protocol, broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::model) enum Broken {
    /// A contribution that is in already is added again.
    AddsRepeats,
    /// Of a sequence only its lowest bit is looked at, as in schemes with two versions of a slot.
    TellsVersionsApartOnly,
    /// The result of c is given up when c + 1 begins.
    StoreNotApart,
    /// A contribution to c - 1 is not answered with its result.
    ForgetsPrevious,
    /// A finished sum is sent up once.
    NeverResends,
    /// A repeat makes its own plane be sent up again, not both: what a limit per packet comes to.
    ResendsOnePlane,
    /// One bitmap for both planes.
    PlanesShareBitmap,
    /// Full as soon as the first plane is.
    FullByOnePlane,
    /// A result is taken whether or not it is awaited.
    TakesAnyResult,
    /// A new generation finds the slot as it was.
    KeepsSlots,
    /// Packets of every generation count.
    TakesAnyGeneration,
}

impl TreeConfig {
    #[cfg(test)]
    pub(super) fn breaks(&self, rule: Broken) -> bool {
        self.broken == Some(rule)
    }

    #[cfg(not(test))]
    pub(super) fn breaks(&self, _: Broken) -> bool {
        false
    }
}
