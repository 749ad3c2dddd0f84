//! Action profiles and selectors.

use std::sync::Arc;

use super::tables::{MAX_SLOTS, resolve_args};
use super::{EntryAction, ProfileError, ProfileGroup, ProfileMember};
use crate::exec::rules::{Group, Member, Profile};
use crate::program::{ProfileId, ProfileInfo, Program};
use crate::switch::Switch;

type Result<T> = std::result::Result<T, ProfileError>;

fn info(program: &Program, profile: ProfileId) -> Result<&ProfileInfo> {
    program.profile_info(profile).ok_or(ProfileError::UnknownProfile(profile.0))
}

impl Switch {
    /// Adds a member.
    ///
    /// # Errors
    /// Unknown handle, an id that is taken, a full profile, an action that no table of the profile allows, arguments that
    /// do not fit.
    pub fn member_insert(&mut self, profile: ProfileId, member: ProfileMember) -> Result<()> {
        let program = Arc::clone(self.program());
        let info = info(&program, profile)?;
        let members = &self.machine.rules.profiles[profile.index()].members;
        if members.contains_key(&member.id) {
            return Err(ProfileError::AlreadyExists {
                profile: info.name.clone(),
                what: "member",
                id: member.id,
            });
        }
        if info.size > 0 && members.len() >= info.size {
            return Err(ProfileError::Full { profile: info.name.clone(), size: info.size });
        }
        self.put_member(&program, profile, info, member)
    }

    /// Replaces a member's action.
    ///
    /// # Errors
    /// As [`Switch::member_insert`]; no such member.
    pub fn member_modify(&mut self, profile: ProfileId, member: ProfileMember) -> Result<()> {
        let program = Arc::clone(self.program());
        let info = info(&program, profile)?;
        if !self.machine.rules.profiles[profile.index()].members.contains_key(&member.id) {
            return Err(ProfileError::NotFound { profile: info.name.clone(), what: "member", id: member.id });
        }
        self.put_member(&program, profile, info, member)
    }

    fn put_member(
        &mut self,
        program: &Program,
        profile: ProfileId,
        info: &ProfileInfo,
        member: ProfileMember,
    ) -> Result<()> {
        let bad = |problem: String| ProfileError::BadAction { profile: info.name.clone(), problem };
        let allowed = |table: &crate::program::TableId| {
            program.table_info(*table).is_some_and(|t| t.actions.contains(&member.call.action))
        };
        if !info.tables.iter().any(allowed) {
            let name =
                program.action_info(member.call.action).map_or("of another program", |a| a.name.as_str());
            return Err(bad(format!("action {name} is in none of its tables")));
        }
        let (call, code, args) = resolve_args(program, &member.call).map_err(|e| bad(e.to_string()))?;
        let id = member.id;
        let member = Member { member: ProfileMember { id, call }, code, args };
        self.rules_mut().profile_mut(profile).members.insert(id, member);
        Ok(())
    }

    /// Removes a member that no group or entry uses.
    ///
    /// # Errors
    /// Unknown handle, no such member, a member that is used.
    pub fn member_delete(&mut self, profile: ProfileId, id: u32) -> Result<()> {
        let program = Arc::clone(self.program());
        let info = info(&program, profile)?;
        let state = &self.machine.rules.profiles[profile.index()];
        if !state.members.contains_key(&id) {
            return Err(ProfileError::NotFound { profile: info.name.clone(), what: "member", id });
        }
        let used = |user| ProfileError::InUse { profile: info.name.clone(), what: "member", id, user };
        if state.groups.values().any(|g| g.group.members.iter().any(|m| m.member == id)) {
            return Err(used("a group"));
        }
        if self.entries_use(info, &EntryAction::Member(id)) {
            return Err(used("a table entry"));
        }
        self.rules_mut().profile_mut(profile).members.remove(&id);
        Ok(())
    }

    fn entries_use(&self, info: &ProfileInfo, action: &EntryAction) -> bool {
        info.tables.iter().any(|t| {
            let table = &self.machine.rules.tables[t.index()];
            table.default_action.as_ref() == Some(action)
                || table.iter().any(|(_, e)| e.entry.action == *action)
        })
    }

    /// All members, by id.
    ///
    /// # Errors
    /// Unknown handle.
    pub fn members(&self, profile: ProfileId) -> Result<Vec<ProfileMember>> {
        info(self.program(), profile)?;
        let state = &self.machine.rules.profiles[profile.index()];
        Ok(state.members.values().map(|m| m.member.clone()).collect())
    }

    /// Adds a group.
    ///
    /// # Errors
    /// Unknown handle, no selector, an id that is taken, members that do not exist, bad weights or sizes.
    pub fn group_insert(&mut self, profile: ProfileId, group: ProfileGroup) -> Result<()> {
        let program = Arc::clone(self.program());
        let info = info(&program, profile)?;
        if !info.has_selector {
            return Err(ProfileError::NoSelector { profile: info.name.clone() });
        }
        let state = self.rules_mut().profile_mut(profile);
        if state.groups.contains_key(&group.id) {
            return Err(ProfileError::AlreadyExists {
                profile: info.name.clone(),
                what: "group",
                id: group.id,
            });
        }
        put_group(state, info, group)
    }

    /// Replaces a group's members.
    ///
    /// # Errors
    /// As [`Switch::group_insert`]; no such group.
    pub fn group_modify(&mut self, profile: ProfileId, group: ProfileGroup) -> Result<()> {
        let program = Arc::clone(self.program());
        let info = info(&program, profile)?;
        let state = self.rules_mut().profile_mut(profile);
        if !state.groups.contains_key(&group.id) {
            return Err(ProfileError::NotFound { profile: info.name.clone(), what: "group", id: group.id });
        }
        put_group(state, info, group)
    }

    /// Removes a group that no entry uses.
    ///
    /// # Errors
    /// Unknown handle, no such group, a group that is used.
    pub fn group_delete(&mut self, profile: ProfileId, id: u32) -> Result<()> {
        let program = Arc::clone(self.program());
        let info = info(&program, profile)?;
        if !self.machine.rules.profiles[profile.index()].groups.contains_key(&id) {
            return Err(ProfileError::NotFound { profile: info.name.clone(), what: "group", id });
        }
        if self.entries_use(info, &EntryAction::Group(id)) {
            let user = "a table entry";
            return Err(ProfileError::InUse { profile: info.name.clone(), what: "group", id, user });
        }
        self.rules_mut().profile_mut(profile).groups.remove(&id);
        Ok(())
    }

    /// All groups, by id.
    ///
    /// # Errors
    /// Unknown handle.
    pub fn groups(&self, profile: ProfileId) -> Result<Vec<ProfileGroup>> {
        info(self.program(), profile)?;
        let state = &self.machine.rules.profiles[profile.index()];
        Ok(state.groups.values().map(|g| g.group.clone()).collect())
    }
}

fn put_group(state: &mut Profile, info: &ProfileInfo, group: ProfileGroup) -> Result<()> {
    let bad = |problem: String| ProfileError::BadGroup { profile: info.name.clone(), problem };
    let limit = if group.max_size == 0 { MAX_SLOTS } else { MAX_SLOTS.min(group.max_size.into()) };
    let total: u64 = group.members.iter().map(|m| u64::from(m.weight)).sum();
    if total > limit {
        return Err(bad(format!("group {}: weights sum to {total}, valid are at most {limit}", group.id)));
    }
    let mut sorted: Vec<_> = group.members.iter().collect();
    sorted.sort_by_key(|m| m.member);
    let mut slots = Vec::new();
    for (i, member) in sorted.iter().enumerate() {
        let id = member.member;
        if member.weight == 0 {
            return Err(bad(format!("group {}: member {id} has weight 0, valid are 1 and more", group.id)));
        }
        if !state.members.contains_key(&id) {
            return Err(ProfileError::NotFound { profile: info.name.clone(), what: "member", id });
        }
        if i > 0 && sorted[i - 1].member == id {
            return Err(bad(format!("group {}: member {id} given twice", group.id)));
        }
        slots.extend(std::iter::repeat_n(id, member.weight as usize));
    }
    state.groups.insert(group.id, Group { group, slots });
    Ok(())
}
