//! Packet-out and packet-in with metadata by name.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::{
    bytestring::{self, ByteStringError, Value, canonical},
    info::{P4Info, UnknownObject, choices},
    p4v1::{PacketIn, PacketMetadata, PacketOut},
};

#[cfg(test)]
mod tests;

/// Why a packet can't be sent or understood.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PacketError {
    /// The program has no such header.
    #[error(transparent)]
    Header(#[from] UnknownObject),
    /// A field that the header does not have.
    #[error("{header} has no metadata field {field}; {}", choices(.valid))]
    UnknownField {
        /// `packet_in` or `packet_out`.
        header: String,
        /// Name or id given.
        field: String,
        /// Names that exist.
        valid: Vec<String>,
    },
    /// A field without value, or with two.
    #[error("{header}: metadata field {field} is given {times} times, expected once")]
    FieldCount {
        /// `packet_in` or `packet_out`.
        header: String,
        /// Field name.
        field: String,
        /// How often it is given.
        times: usize,
    },
    /// A value that does not fit.
    #[error("{header}: metadata field {field}: {error}")]
    Value {
        /// `packet_in` or `packet_out`.
        header: String,
        /// Field name.
        field: String,
        /// What is wrong.
        error: ByteStringError,
    },
}

impl P4Info {
    /// A packet-out. Every field of the program's `packet_out` header is sent; padding may be left out here and is 0.
    pub fn packet_out(&self, payload: Vec<u8>, fields: &[(&str, Value)]) -> Result<PacketOut, PacketError> {
        let header = self.packet_header("packet_out")?;
        let names = || header.fields.iter().map(|field| field.name.clone()).collect();
        if let Some((unknown, _)) =
            fields.iter().find(|(name, _)| !header.fields.iter().any(|f| f.name == *name))
        {
            return Err(PacketError::UnknownField {
                header: header.name.clone(),
                field: (*unknown).to_owned(),
                valid: names(),
            });
        }
        let mut metadata = Vec::with_capacity(header.fields.len());
        for field in &header.fields {
            let mut given = fields.iter().filter(|(name, _)| *name == field.name).map(|(_, value)| value);
            let value = match (given.next(), given.count()) {
                (Some(value), 0) => bytestring::fit(value.as_bytes(), field.width)
                    .map_err(|error| PacketError::Value {
                        header: header.name.clone(),
                        field: field.name.clone(),
                        error,
                    })?
                    .to_vec(),
                (None, _) if field.is_padding => vec![0],
                (first, more) => {
                    return Err(PacketError::FieldCount {
                        header: header.name.clone(),
                        field: field.name.clone(),
                        times: usize::from(first.is_some()) + more,
                    });
                }
            };
            metadata.push(PacketMetadata { metadata_id: field.id, value });
        }
        Ok(PacketOut { payload, metadata })
    }

    /// The metadata of a packet-in by name, in canonical byte strings. Fields the program does not declare are an error.
    pub fn packet_in_fields(&self, packet: &PacketIn) -> Result<BTreeMap<&str, Vec<u8>>, PacketError> {
        let header = self.packet_header("packet_in")?;
        packet
            .metadata
            .iter()
            .map(|given| {
                let field =
                    header.fields.iter().find(|field| field.id == given.metadata_id).ok_or_else(|| {
                        PacketError::UnknownField {
                            header: header.name.clone(),
                            field: format!("with id {}", given.metadata_id),
                            valid: header.fields.iter().map(|field| field.name.clone()).collect(),
                        }
                    })?;
                Ok((field.name.as_str(), canonical(&given.value).to_vec()))
            })
            .collect()
    }
}
