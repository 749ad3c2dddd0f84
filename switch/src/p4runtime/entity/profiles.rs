//! Action profiles: members and groups.

use inca_p4runtime::{
    info::ProfileInfo,
    p4v1::{
        ActionProfileGroup, ActionProfileMember, Entity,
        action_profile_group::{Member, member::WatchKind},
        entity::Entity as Kind,
    },
    status::UpdateError,
};
use tonic::Code;

use super::{
    Operation,
    keys::{self, Use},
    tables::weight,
};
use crate::{
    control::{ActionCall, EntryAction, GroupMember, ProfileGroup, ProfileMember},
    p4runtime::{
        error::{Outcome, invalid, unknown},
        pipeline::Pipeline,
        plane::Context,
    },
    program::ProfileId,
};

/// Inserts, modifies or deletes a member.
pub(in crate::p4runtime) fn apply_member(
    cx: &mut Context<'_>,
    operation: Operation,
    member: &ActionProfileMember,
) -> Outcome {
    let (profile, handle) = profile(cx.pipeline, member.action_profile_id)?;
    let id = member.member_id;
    if id == 0 {
        return Err(invalid(format!("action profile {}: member id 0 given, expected above 0", profile.name)));
    }
    if operation == Operation::Delete {
        return Ok(cx.switch.member_delete(handle, id)?);
    }
    let member = ProfileMember { id, call: call(cx.pipeline, profile, member)? };
    match operation {
        // Where there are members already, there are no one-shot sets: only the first one needs the look.
        Operation::Insert if cx.switch.members(handle)?.is_empty() && has_one_shots(cx, profile)? => {
            Err(mixed(profile))
        }
        Operation::Insert => Ok(cx.switch.member_insert(handle, member)?),
        Operation::Modify | Operation::Delete => Ok(cx.switch.member_modify(handle, member)?),
    }
}

/// Inserts, modifies or deletes a group.
pub(in crate::p4runtime) fn apply_group(
    cx: &mut Context<'_>,
    operation: Operation,
    group: &ActionProfileGroup,
) -> Outcome {
    let (profile, handle) = profile(cx.pipeline, group.action_profile_id)?;
    let id = group.group_id;
    let bad = |problem: String| invalid(format!("action profile {}, group {id}: {problem}", profile.name));
    if id == 0 {
        return Err(bad("expected an id above 0".into()));
    }
    if !profile.with_selector {
        return Err(bad("the profile has no selector, so no groups".into()));
    }
    if operation == Operation::Delete {
        return Ok(cx.switch.group_delete(handle, id)?);
    }
    let max_size = u32::try_from(group.max_size)
        .map_err(|_| bad(format!("max_size {} given, expected 0 or more", group.max_size)))?;
    if profile.max_group_size > 0 && group.max_size > profile.max_group_size {
        return Err(bad(format!("max_size {max_size} given, the p4info allows {}", profile.max_group_size)));
    }
    let members = group.members.iter().map(|member| {
        let watch_port = match &member.watch_kind {
            Some(WatchKind::WatchPort(port)) => Some(port.clone()),
            #[allow(deprecated)]
            Some(WatchKind::Watch(port)) => Some(port.to_be_bytes().to_vec()),
            None => None,
        };
        let weight = weight(&format!("action profile {}, group {id}", profile.name), member.weight)?;
        Ok(GroupMember { member: member.member_id, weight, watch_port })
    });
    let group = ProfileGroup { id, max_size, members: members.collect::<Outcome<_>>()? };
    match operation {
        Operation::Insert => Ok(cx.switch.group_insert(handle, group)?),
        Operation::Modify | Operation::Delete => Ok(cx.switch.group_modify(handle, group)?),
    }
}

/// Members that a pattern stands for: profile 0 is every profile, member 0 is every member.
pub(in crate::p4runtime) fn read_members(
    cx: &mut Context<'_>,
    pattern: &ActionProfileMember,
    found: &mut Vec<Entity>,
) -> Outcome {
    for (id, handle) in chosen(cx.pipeline, pattern.action_profile_id)? {
        for member in cx.switch.members(handle)? {
            if pattern.member_id != 0 && pattern.member_id != member.id {
                continue;
            }
            let member = ActionProfileMember {
                action_profile_id: id,
                member_id: member.id,
                action: Some(keys::action(cx.pipeline, &member.call)?),
            };
            found.push(Kind::ActionProfileMember(member).into());
        }
    }
    Ok(())
}

/// Groups that a pattern stands for: profile 0 is every profile, group 0 is every group.
pub(in crate::p4runtime) fn read_groups(
    cx: &mut Context<'_>,
    pattern: &ActionProfileGroup,
    found: &mut Vec<Entity>,
) -> Outcome {
    for (id, handle) in chosen(cx.pipeline, pattern.action_profile_id)? {
        if !cx.pipeline.info.profile_by_id(id).is_ok_and(|profile| profile.with_selector) {
            continue;
        }
        for group in cx.switch.groups(handle)? {
            if pattern.group_id != 0 && pattern.group_id != group.id {
                continue;
            }
            let members = group.members.into_iter().map(|member| Member {
                member_id: member.member,
                weight: member.weight as i32,
                watch_kind: member.watch_port.map(WatchKind::WatchPort),
            });
            let group = ActionProfileGroup {
                action_profile_id: id,
                group_id: group.id,
                members: members.collect(),
                max_size: group.max_size as i32,
            };
            found.push(Kind::ActionProfileGroup(group).into());
        }
    }
    Ok(())
}

/// One-shot sets are for selectors that have no members of their own.
pub(super) fn check_one_shot(cx: &Context<'_>, profile: &ProfileInfo) -> Outcome {
    let (_, handle) = self::profile(cx.pipeline, profile.id)?;
    if cx.switch.members(handle)?.is_empty() { Ok(()) } else { Err(mixed(profile)) }
}

fn mixed(profile: &ProfileInfo) -> UpdateError {
    invalid(format!(
        "action profile {}: takes either one-shot sets or members and groups, not both",
        profile.name
    ))
}

/// Whether an entry of the profile's tables has a one-shot set.
fn has_one_shots(cx: &Context<'_>, profile: &ProfileInfo) -> Outcome<bool> {
    if !profile.with_selector {
        return Ok(false);
    }
    for &table in &profile.tables {
        let (_, handle) = keys::table(cx.pipeline, table)?;
        let entries = cx.switch.table_entries(handle)?;
        if entries.iter().any(|view| matches!(view.entry.action, EntryAction::OneShot(_))) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn profile(pipeline: &Pipeline, id: u32) -> Outcome<(&ProfileInfo, ProfileId)> {
    let info = pipeline.info.profile_by_id(id).map_err(unknown)?;
    let missing =
        || UpdateError::new(Code::Internal, format!("action profile {} is not in the program", info.name));
    Ok((info, pipeline.profile(id).ok_or_else(missing)?))
}

fn chosen(pipeline: &Pipeline, id: u32) -> Outcome<Vec<(u32, ProfileId)>> {
    let ids: Vec<u32> = match id {
        0 => pipeline.info.profiles().map(|profile| profile.id).collect(),
        id => vec![id],
    };
    ids.into_iter().map(|id| Ok((id, profile(pipeline, id)?.1))).collect()
}

/// A member's action is one that the profile's tables allow; they all allow the same ones.
fn call(pipeline: &Pipeline, profile: &ProfileInfo, member: &ActionProfileMember) -> Outcome<ActionCall> {
    let action = member.action.as_ref().ok_or_else(|| {
        invalid(format!("action profile {}, member {}: has no action", profile.name, member.member_id))
    })?;
    let table = profile
        .tables
        .first()
        .ok_or_else(|| invalid(format!("action profile {} belongs to no table", profile.name)))?;
    keys::call(pipeline, keys::table(pipeline, *table)?, action, Use::Entry)
}
