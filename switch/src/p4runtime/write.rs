//! A batch of updates, in the three atomicities.

use inca_p4runtime::{
    p4v1::{Update, write_request::Atomicity},
    status::UpdateError,
};
use tonic::Code;

use super::{entity, error::Outcome, plane::Context};

/// Applies a batch between two packets. `Err` holds one outcome per update, of which at least one is an error.
///
/// With ROLLBACK_ON_ERROR or DATAPLANE_ATOMIC a failure undoes everything before it. No packet sees a batch half done, so the
/// two are the same here.
pub(super) fn write(
    cx: &mut Context<'_>,
    updates: &[Update],
    atomicity: Atomicity,
) -> Result<(), Vec<Outcome>> {
    let outcomes = match atomicity {
        Atomicity::ContinueOnError => updates.iter().map(|update| entity::apply(cx, update)).collect(),
        Atomicity::RollbackOnError | Atomicity::DataplaneAtomic => all_or_nothing(cx, updates),
    };
    if outcomes.iter().all(Result::is_ok) { Ok(()) } else { Err(outcomes) }
}

fn all_or_nothing(cx: &mut Context<'_>, updates: &[Update]) -> Vec<Outcome> {
    let mut back = Vec::with_capacity(updates.len());
    for (at, update) in updates.iter().enumerate() {
        let done = entity::undo(cx, update).and_then(|undo| {
            entity::apply(cx, update)?;
            Ok(undo)
        });
        match done {
            Ok(undo) => back.push(undo),
            Err(error) => {
                let rolled_back = roll_back(cx, back);
                let aborted = |what| Err(UpdateError::new(Code::Aborted, what));
                return (0..updates.len())
                    .map(|other| match other.cmp(&at) {
                        std::cmp::Ordering::Less => rolled_back.clone(),
                        std::cmp::Ordering::Equal => Err(error.clone()),
                        std::cmp::Ordering::Greater => {
                            aborted("not tried: an earlier update of the batch failed")
                        }
                    })
                    .collect();
            }
        }
    }
    vec![Ok(()); updates.len()]
}

/// Undoes updates, the last one first. What was there before can be there again, so this does not fail; if it did, the
/// outcome says so.
fn roll_back(cx: &mut Context<'_>, back: Vec<Vec<Update>>) -> Outcome {
    let mut outcome = Err(UpdateError::new(Code::Aborted, "rolled back: a later update of the batch failed"));
    for undo in back.iter().rev().flatten() {
        if let Err(error) = entity::apply(cx, undo) {
            tracing::error!(%error, "an update of a failed batch can't be undone");
            outcome = Err(UpdateError::new(Code::DataLoss, format!("not rolled back: {error}")));
        }
    }
    outcome
}
