//! The embedded switch as a [`Bench`].

use std::panic::{AssertUnwindSafe, catch_unwind};

use inca_switch::control::{
    ActionCall, CloneSession, CounterValue, EntryAction, EntryKey, GroupMember, ProfileGroup, ProfileMember,
    TableEntry,
};
use inca_switch::program::TableId;
use inca_switch::{Program, Switch, SwitchConfig};

use super::{Action, Bench, BenchError, Call, CounterName, EntryName, Request, Sent};

/// Between two frames, so that meters and time stamps see time pass.
const FRAME_US: u64 = 100;

/// The embedded switch with one program, in process.
#[derive(Debug)]
pub struct Embedded {
    switch: Switch,
    now_us: u64,
    inserted: Vec<(TableId, EntryKey)>,
}

type Result<T> = std::result::Result<T, BenchError>;

fn refused(error: impl std::fmt::Display) -> BenchError {
    BenchError::Refused(error.to_string())
}

impl Embedded {
    /// A switch that runs this program.
    ///
    /// # Errors
    /// If it can't.
    pub fn new(json: &str) -> Result<Self> {
        let program = Program::from_json(json).map_err(refused)?;
        Ok(Self { switch: Switch::new(program, SwitchConfig::default()), now_us: 0, inserted: Vec::new() })
    }

    /// The switch, for what scripts have no statement for.
    pub fn switch(&mut self) -> &mut Switch {
        &mut self.switch
    }

    fn table(&self, name: &str) -> Result<TableId> {
        self.switch.program().table(name).ok_or_else(|| refused(format!("no table {name}")))
    }

    fn action(&self, table: Option<TableId>, action: &Action) -> Result<EntryAction> {
        Ok(match action {
            Action::Call(call) => EntryAction::Call(self.call(table, call)?),
            Action::Member(id) => EntryAction::Member(*id),
            Action::Group(id) => EntryAction::Group(*id),
        })
    }

    fn call(&self, table: Option<TableId>, call: &Call) -> Result<ActionCall> {
        let program = self.switch.program();
        let action = match table {
            Some(table) => program.table_action(table, &call.action),
            None => program.action(&call.action),
        };
        let action = action.ok_or_else(|| refused(format!("no action {}", call.action)))?;
        Ok(ActionCall { action, args: call.args.clone() })
    }

    fn insert(&mut self, name: &EntryName, action: &Action) -> Result<()> {
        let table = self.table(&name.table)?;
        let entry = TableEntry {
            keys: name.keys.clone(),
            priority: name.priority,
            action: self.action(Some(table), action)?,
            metadata: Vec::new(),
            idle_timeout_ns: 0,
        };
        self.switch.table_insert(table, entry).map_err(refused)?;
        self.inserted.push((table, EntryKey { keys: name.keys.clone(), priority: name.priority }));
        Ok(())
    }

    fn profile(&self, name: &str) -> Result<inca_switch::program::ProfileId> {
        self.switch.program().profile(name).ok_or_else(|| refused(format!("no action profile {name}")))
    }
}

impl Bench for Embedded {
    fn apply(&mut self, request: &Request) -> Result<()> {
        match request {
            Request::Insert(name, action) => self.insert(name, action)?,
            Request::Default(table, action) => {
                let table = self.table(table)?;
                let action = self.action(Some(table), action)?;
                self.switch.table_set_default(table, Some(action)).map_err(refused)?;
            }
            Request::RemoveAll => {
                for (table, key) in std::mem::take(&mut self.inserted) {
                    self.switch.table_delete(table, &key).map_err(refused)?;
                }
            }
            Request::Member(profile, id, call) => {
                let profile = self.profile(profile)?;
                // p4c writes an action once for each table: the profile's tables know theirs.
                let info = self.switch.program().profile_info(profile);
                let table = info.and_then(|info| info.tables.first()).copied();
                let member = ProfileMember { id: *id, call: self.call(table, call)? };
                self.switch.member_insert(profile, member).map_err(refused)?;
            }
            Request::Group(profile, id, members) => {
                let profile = self.profile(profile)?;
                let members = members.iter().map(|(member, weight)| GroupMember {
                    member: *member,
                    weight: *weight,
                    watch_port: None,
                });
                let group = ProfileGroup { id: *id, max_size: 0, members: members.collect() };
                self.switch.group_insert(profile, group).map_err(refused)?;
            }
            Request::Session(id, replicas) => {
                let session = CloneSession { replicas: replicas.clone(), packet_length_bytes: 0 };
                self.switch.clone_session_insert(*id, session).map_err(refused)?;
            }
            Request::Multicast(id, replicas) => {
                let set = match self.switch.multicast_get(*id) {
                    Some(_) => self.switch.multicast_modify(*id, replicas.clone()),
                    None => self.switch.multicast_insert(*id, replicas.clone()),
                };
                set.map_err(refused)?;
            }
            Request::Register(name, index, value) => {
                let program = self.switch.program();
                let register =
                    program.register(name).ok_or_else(|| refused(format!("no register {name}")))?;
                let size = program.register_info(register).map_or(0, |info| info.size);
                let cells = index.map_or(0..size, |index| index..index + 1);
                for cell in cells {
                    self.switch.register_write(register, cell, value).map_err(refused)?;
                }
            }
            Request::Counter(name, index, value) => {
                let counter = self.switch.program().counter(name);
                let counter = counter.ok_or_else(|| refused(format!("no counter {name}")))?;
                self.switch.counter_write(counter, *index, *value).map_err(refused)?;
            }
            Request::Meter(name, index, config) => {
                let program = self.switch.program();
                let meter = program.meter(name).ok_or_else(|| refused(format!("no meter {name}")))?;
                let size = program.meter_info(meter).map_or(0, |info| info.size);
                let cells = index.map_or(0..size, |index| index..index + 1);
                for cell in cells {
                    self.switch.meter_write(meter, cell, Some(*config)).map_err(refused)?;
                }
            }
        }
        Ok(())
    }

    fn process(&mut self, frames: &[(u16, Vec<u8>)]) -> Result<Vec<Sent>> {
        let mut all = Vec::new();
        for (port, frame) in frames {
            self.now_us += FRAME_US;
            let mut sent = Sent::new();
            let (switch, now_us) = (&mut self.switch, self.now_us);
            // A panic is a failed test among many, not the end of the run.
            let done = catch_unwind(AssertUnwindSafe(|| switch.process(*port, frame, now_us, &mut sent)));
            if done.is_err() {
                return Err(refused(format!("the switch panics at a frame into port {port}")));
            }
            all.push(sent);
        }
        Ok(all)
    }

    fn counter(&mut self, name: &CounterName) -> Result<CounterValue> {
        match name {
            CounterName::Cell(name, index) => {
                let counter = self.switch.program().counter(name);
                let counter = counter.ok_or_else(|| refused(format!("no counter {name}")))?;
                self.switch.counter_read(counter, *index).map_err(refused)
            }
            CounterName::Entry(entry) => {
                let table = self.table(&entry.table)?;
                let key = EntryKey { keys: entry.keys.clone(), priority: entry.priority };
                let view = self.switch.table_get(table, &key).map_err(refused)?;
                view.counter.ok_or_else(|| refused(format!("table {} counts nothing", entry.table)))
            }
        }
    }
}
