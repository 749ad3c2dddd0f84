//! A batch of updates, in the three atomicities.

use inca_p4runtime::{
    info::TableInfo,
    p4v1::{Update, entity::Entity as Kind, write_request::Atomicity},
    status::UpdateError,
};
use tonic::Code;

use super::{entity, error::Outcome, pipeline::Pipeline, plane::Context};

/// Whether a batch is about rules alone, so that no packet has to wait for it. Undoing is not, where it brings counters back.
pub(super) fn rules_only(pipeline: &Pipeline, updates: &[Update], atomicity: Atomicity) -> bool {
    let rules_only = |update: &Update| match update.entity.as_ref().and_then(|entity| entity.entity.as_ref())
    {
        Some(Kind::TableEntry(entry)) => {
            let undoes = atomicity != Atomicity::ContinueOnError;
            let counts =
                |table: &TableInfo| table.direct_meter.is_some() || table.direct_counter.is_some() && undoes;
            let brings = entry.counter_data.is_some() || entry.meter_config.is_some();
            !brings && !pipeline.info.table_by_id(entry.table_id).is_ok_and(counts)
        }
        Some(
            Kind::ActionProfileMember(_)
            | Kind::ActionProfileGroup(_)
            | Kind::PacketReplicationEngineEntry(_)
            | Kind::ValueSetEntry(_)
            | Kind::DigestEntry(_),
        ) => true,
        _ => false,
    };
    updates.iter().all(rules_only)
}

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
