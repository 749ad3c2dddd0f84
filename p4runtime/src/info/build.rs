//! From the P4Info message to the index.

use super::{
    ActionInfo, ActionRefInfo, ArrayInfo, DigestInfo, DirectInfo, FieldInfo, Index, MatchKind, MetadataInfo,
    P4Info, P4InfoError, PacketHeaderInfo, ParamInfo, ProfileInfo, RegisterInfo, TableInfo, ValueSetInfo,
};
use crate::p4config::{
    self, Preamble,
    match_field::{Match, MatchType},
    p4_bitstring_like_type_spec::TypeSpec as BitstringSpec,
    p4_data_type_spec::TypeSpec,
    table::IdleTimeoutBehavior,
};

impl P4Info {
    /// Checks and indexes a message.
    pub fn new(message: p4config::P4Info) -> Result<Self, P4InfoError> {
        let direct = direct_resources(&message)?;
        let tables = objects(
            "table",
            &message.tables,
            |table| &table.preamble,
            |table, head| table_info(table, head, &direct),
        )?;
        let info = Self {
            tables: Index::new("table", tables)?,
            actions: Index::new(
                "action",
                objects("action", &message.actions, |a| &a.preamble, |a, h| Ok(action_info(a, h)))?,
            )?,
            profiles: Index::new(
                "action profile",
                objects(
                    "action profile",
                    &message.action_profiles,
                    |p| &p.preamble,
                    |p, h| Ok(profile_info(p, h)),
                )?,
            )?,
            counters: Index::new(
                "counter",
                objects(
                    "counter",
                    &message.counters,
                    |c| &c.preamble,
                    |c, h| {
                        let unit = c.spec.unwrap_or_default().unit().into();
                        Ok(ArrayInfo {
                            id: h.id,
                            name: h.name.clone(),
                            alias: h.alias.clone(),
                            size: c.size,
                            unit,
                        })
                    },
                )?,
            )?,
            meters: Index::new(
                "meter",
                objects(
                    "meter",
                    &message.meters,
                    |m| &m.preamble,
                    |m, h| {
                        let unit = m.spec.unwrap_or_default().unit().into();
                        Ok(ArrayInfo {
                            id: h.id,
                            name: h.name.clone(),
                            alias: h.alias.clone(),
                            size: m.size,
                            unit,
                        })
                    },
                )?,
            )?,
            direct: Index::new("direct resource", direct)?,
            registers: Index::new(
                "register",
                objects("register", &message.registers, |r| &r.preamble, |r, h| Ok(register_info(r, h)))?,
            )?,
            digests: Index::new(
                "digest",
                objects(
                    "digest",
                    &message.digests,
                    |d| &d.preamble,
                    |_, h| Ok(DigestInfo { id: h.id, name: h.name.clone(), alias: h.alias.clone() }),
                )?,
            )?,
            value_sets: Index::new(
                "value set",
                objects(
                    "value set",
                    &message.value_sets,
                    |v| &v.preamble,
                    |v, h| {
                        let fields = v
                            .r#match
                            .iter()
                            .map(|field| field_info(field, &h.name))
                            .collect::<Result<_, _>>()?;
                        Ok(ValueSetInfo {
                            id: h.id,
                            name: h.name.clone(),
                            alias: h.alias.clone(),
                            fields,
                            size: v.size,
                        })
                    },
                )?,
            )?,
            packet_headers: Index::new(
                "packet header",
                objects(
                    "packet header",
                    &message.controller_packet_metadata,
                    |p| &p.preamble,
                    |p, h| Ok(packet_header_info(p, h)),
                )?,
            )?,
            message,
        };
        info.check_references()?;
        Ok(info)
    }

    fn check_references(&self) -> Result<(), P4InfoError> {
        for table in &self.tables.objects {
            let dangling =
                |target, id| P4InfoError::Dangling { what: "table", name: table.name.clone(), target, id };
            if let Some(action) = table.actions.iter().find(|action| self.actions.by_id(action.id).is_none())
            {
                return Err(dangling("action", action.id));
            }
            if let Some(profile) = table.profile.filter(|&id| self.profiles.by_id(id).is_none()) {
                return Err(dangling("action profile", profile));
            }
        }
        Ok(())
    }
}

fn objects<M, T>(
    what: &'static str,
    messages: &[M],
    preamble: impl Fn(&M) -> &Option<Preamble>,
    make: impl Fn(&M, &Preamble) -> Result<T, P4InfoError>,
) -> Result<Vec<T>, P4InfoError> {
    messages
        .iter()
        .enumerate()
        .map(|(position, message)| {
            make(message, preamble(message).as_ref().ok_or(P4InfoError::NoPreamble { what, position })?)
        })
        .collect()
}

fn direct_resources(message: &p4config::P4Info) -> Result<Vec<DirectInfo>, P4InfoError> {
    let info = |head: &Preamble, table, is_meter| {
        Ok(DirectInfo { id: head.id, name: head.name.clone(), alias: head.alias.clone(), table, is_meter })
    };
    let mut all = objects(
        "direct counter",
        &message.direct_counters,
        |c| &c.preamble,
        |c, h| info(h, c.direct_table_id, false),
    )?;
    all.extend(objects(
        "direct meter",
        &message.direct_meters,
        |m| &m.preamble,
        |m, h| info(h, m.direct_table_id, true),
    )?);
    Ok(all)
}

fn table_info(
    table: &p4config::Table,
    head: &Preamble,
    direct: &[DirectInfo],
) -> Result<TableInfo, P4InfoError> {
    let fields: Vec<FieldInfo> =
        table.match_fields.iter().map(|field| field_info(field, &head.name)).collect::<Result<_, _>>()?;
    let resource = |is_meter| {
        direct
            .iter()
            .find(|resource| {
                resource.is_meter == is_meter && table.direct_resource_ids.contains(&resource.id)
            })
            .map(|resource| resource.id)
    };
    Ok(TableInfo {
        id: head.id,
        name: head.name.clone(),
        alias: head.alias.clone(),
        annotations: head.annotations.clone(),
        needs_priority: fields.iter().any(|field| field.kind.needs_priority()),
        fields,
        actions: table
            .action_refs
            .iter()
            .map(|action| ActionRefInfo { id: action.id, scope: action.scope() })
            .collect(),
        size: table.size,
        const_default_action: nonzero(table.const_default_action_id),
        is_const: table.is_const_table,
        profile: nonzero(table.implementation_id),
        direct_counter: resource(false),
        direct_meter: resource(true),
        idle_timeout: table.idle_timeout_behavior() == IdleTimeoutBehavior::NotifyControl,
    })
}

fn field_info(field: &p4config::MatchField, table: &str) -> Result<FieldInfo, P4InfoError> {
    let unknown =
        |kind: String| P4InfoError::MatchKind { table: table.to_owned(), field: field.name.clone(), kind };
    let kind = match &field.r#match {
        Some(Match::MatchType(number)) => match MatchType::try_from(*number) {
            Ok(MatchType::Exact) => MatchKind::Exact,
            Ok(MatchType::Lpm) => MatchKind::Lpm,
            Ok(MatchType::Ternary) => MatchKind::Ternary,
            Ok(MatchType::Range) => MatchKind::Range,
            Ok(MatchType::Optional) => MatchKind::Optional,
            Ok(MatchType::Unspecified) | Err(_) => return Err(unknown(number.to_string())),
        },
        Some(Match::OtherMatchType(name)) => return Err(unknown(name.clone())),
        None => return Err(unknown("none".into())),
    };
    Ok(FieldInfo { id: field.id, name: field.name.clone(), width: width(field.bitwidth), kind })
}

fn action_info(action: &p4config::Action, head: &Preamble) -> ActionInfo {
    ActionInfo {
        id: head.id,
        name: head.name.clone(),
        alias: head.alias.clone(),
        annotations: head.annotations.clone(),
        params: action
            .params
            .iter()
            .map(|param| ParamInfo { id: param.id, name: param.name.clone(), width: width(param.bitwidth) })
            .collect(),
    }
}

fn profile_info(profile: &p4config::ActionProfile, head: &Preamble) -> ProfileInfo {
    ProfileInfo {
        id: head.id,
        name: head.name.clone(),
        alias: head.alias.clone(),
        tables: profile.table_ids.clone(),
        with_selector: profile.with_selector,
        size: profile.size,
        max_group_size: profile.max_group_size,
    }
}

fn register_info(register: &p4config::Register, head: &Preamble) -> RegisterInfo {
    let spec = register.type_spec.as_ref().and_then(|spec| spec.type_spec.as_ref());
    let bits = match spec {
        Some(TypeSpec::Bitstring(bits)) => match &bits.type_spec {
            Some(BitstringSpec::Bit(bit)) => Some(width(bit.bitwidth)),
            Some(BitstringSpec::Int(int)) => Some(width(int.bitwidth)),
            Some(BitstringSpec::Varbit(_)) | None => None,
        },
        Some(TypeSpec::Bool(_)) => Some(1),
        _ => None,
    };
    RegisterInfo {
        id: head.id,
        name: head.name.clone(),
        alias: head.alias.clone(),
        size: i64::from(register.size),
        width: bits,
    }
}

fn packet_header_info(header: &p4config::ControllerPacketMetadata, head: &Preamble) -> PacketHeaderInfo {
    let is_padding = |name: &str, annotations: &[String]| {
        name.trim_start_matches('_').starts_with("pad")
            || annotations.iter().any(|text| text.starts_with("@padding"))
    };
    PacketHeaderInfo {
        id: head.id,
        name: head.name.clone(),
        alias: head.alias.clone(),
        fields: header
            .metadata
            .iter()
            .map(|field| MetadataInfo {
                id: field.id,
                name: field.name.clone(),
                width: width(field.bitwidth),
                is_padding: is_padding(&field.name, &field.annotations),
            })
            .collect(),
    }
}

fn width(bits: i32) -> u32 {
    bits.max(0) as u32
}

fn nonzero(id: u32) -> Option<u32> {
    (id != 0).then_some(id)
}
