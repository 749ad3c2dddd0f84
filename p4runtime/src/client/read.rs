//! Reading entities, wildcards included.

use super::{CallError, Client};
use crate::p4v1::{
    ActionProfileGroup, ActionProfileMember, CounterData, CounterEntry, Entity, Index, MulticastGroupEntry,
    PacketReplicationEngineEntry, ReadRequest, RegisterEntry, TableEntry, entity::Entity as Kind,
    packet_replication_engine_entry as pre,
};

impl Client {
    /// Everything that the entities given stand for; ids of 0, absent indices and empty matches are wildcards.
    pub async fn read(&self, entities: Vec<Entity>) -> Result<Vec<Entity>, CallError> {
        let name = format!("Read of {} entities", entities.len());
        let request = ReadRequest { device_id: self.inner.config.device_id, entities, role: String::new() };
        let mut rpc = self.rpc();
        let call = async move {
            let mut stream = rpc.read(request).await?.into_inner();
            let mut found = Vec::new();
            while let Some(response) = stream.message().await? {
                found.extend(response.entities);
            }
            Ok(found)
        };
        self.call(name, self.inner.config.call_timeout, call).await
    }

    /// All entries of a table, or of all tables (id 0), without their default entries.
    pub async fn read_table(&self, table_id: u32) -> Result<Vec<TableEntry>, CallError> {
        self.read_entries(TableEntry { table_id, ..Default::default() }).await
    }

    /// As [`Self::read_table`], each entry with its direct counter.
    pub async fn read_table_counters(&self, table_id: u32) -> Result<Vec<TableEntry>, CallError> {
        let counter_data = Some(CounterData::default());
        self.read_entries(TableEntry { table_id, counter_data, ..Default::default() }).await
    }

    /// The default entry of a table.
    pub async fn read_default(&self, table_id: u32) -> Result<Option<TableEntry>, CallError> {
        let default = TableEntry { table_id, is_default_action: true, ..Default::default() };
        Ok(self.read_entries(default).await?.pop())
    }

    /// Entries that a pattern stands for.
    pub async fn read_entries(&self, pattern: TableEntry) -> Result<Vec<TableEntry>, CallError> {
        let found = self.read(vec![Kind::TableEntry(pattern).into()]).await?;
        Ok(found
            .into_iter()
            .filter_map(|entity| match entity.entity {
                Some(Kind::TableEntry(entry)) => Some(entry),
                _ => None,
            })
            .collect())
    }

    /// Cells of a counter array: one, or all of them in order.
    pub async fn read_counter(
        &self,
        counter_id: u32,
        index: Option<i64>,
    ) -> Result<Vec<CounterEntry>, CallError> {
        let index = index.map(|index| Index { index });
        let pattern = CounterEntry { counter_id, index, data: None };
        let found = self.read(vec![Kind::CounterEntry(pattern).into()]).await?;
        Ok(found
            .into_iter()
            .filter_map(|entity| match entity.entity {
                Some(Kind::CounterEntry(counter)) => Some(counter),
                _ => None,
            })
            .collect())
    }

    /// Cells of a register array: one, or all of them in order. BMv2 answers UNIMPLEMENTED.
    pub async fn read_register(
        &self,
        register_id: u32,
        index: Option<i64>,
    ) -> Result<Vec<RegisterEntry>, CallError> {
        let index = index.map(|index| Index { index });
        let pattern = RegisterEntry { register_id, index, data: None };
        let found = self.read(vec![Kind::RegisterEntry(pattern).into()]).await?;
        Ok(found
            .into_iter()
            .filter_map(|entity| match entity.entity {
                Some(Kind::RegisterEntry(register)) => Some(register),
                _ => None,
            })
            .collect())
    }

    /// A multicast group, or all of them (id 0).
    pub async fn read_multicast_groups(&self, id: u32) -> Result<Vec<MulticastGroupEntry>, CallError> {
        let pattern: Entity = MulticastGroupEntry { multicast_group_id: id, ..Default::default() }.into();
        let found = self.read(vec![pattern]).await?;
        Ok(found
            .into_iter()
            .filter_map(|entity| match entity.entity {
                Some(Kind::PacketReplicationEngineEntry(PacketReplicationEngineEntry {
                    r#type: Some(pre::Type::MulticastGroupEntry(group)),
                })) => Some(group),
                _ => None,
            })
            .collect())
    }

    /// Members of an action profile, or of all of them (id 0).
    pub async fn read_members(&self, action_profile_id: u32) -> Result<Vec<ActionProfileMember>, CallError> {
        let pattern = ActionProfileMember { action_profile_id, ..Default::default() };
        let found = self.read(vec![Kind::ActionProfileMember(pattern).into()]).await?;
        Ok(found
            .into_iter()
            .filter_map(|entity| match entity.entity {
                Some(Kind::ActionProfileMember(member)) => Some(member),
                _ => None,
            })
            .collect())
    }

    /// Groups of an action profile, or of all of them (id 0).
    pub async fn read_groups(&self, action_profile_id: u32) -> Result<Vec<ActionProfileGroup>, CallError> {
        let pattern = ActionProfileGroup { action_profile_id, ..Default::default() };
        let found = self.read(vec![Kind::ActionProfileGroup(pattern).into()]).await?;
        Ok(found
            .into_iter()
            .filter_map(|entity| match entity.entity {
                Some(Kind::ActionProfileGroup(group)) => Some(group),
                _ => None,
            })
            .collect())
    }
}
