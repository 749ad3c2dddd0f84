//! Packet-in and packet-out: metadata as the header in front of the frame.

use inca_p4runtime::{
    P4Info, bytestring,
    info::PacketHeaderInfo,
    p4v1::{PacketIn, PacketMetadata, PacketOut},
};

#[cfg(test)]
mod tests;

/// The frame for the CPU port: the `packet_out` header, then the payload. The error says what is wrong with the metadata.
pub(super) fn frame(info: &P4Info, packet: &PacketOut) -> Result<Vec<u8>, String> {
    let mut frame = match info.packet_header("packet_out") {
        Ok(header) => packed(header, &packet.metadata)?,
        Err(_) if packet.metadata.is_empty() => Vec::new(),
        Err(_) => return Err("the program has no packet_out header, so no metadata either".into()),
    };
    frame.extend_from_slice(&packet.payload);
    Ok(frame)
}

/// The packet-in of a frame from the CPU port; `None` if it is shorter than the program's `packet_in` header.
pub(super) fn packet_in(info: &P4Info, mut frame: Vec<u8>) -> Option<PacketIn> {
    let Ok(header) = info.packet_header("packet_in") else {
        return Some(PacketIn { payload: frame, metadata: Vec::new() });
    };
    let length = header.bits().div_ceil(8) as usize;
    if frame.len() < length {
        return None;
    }
    let mut at = 0;
    let metadata = header
        .fields
        .iter()
        .map(|field| {
            let value = bits(&frame, at, field.width);
            at += field.width as usize;
            PacketMetadata { metadata_id: field.id, value }
        })
        .collect();
    frame.drain(..length);
    Some(PacketIn { payload: frame, metadata })
}

fn packed(header: &PacketHeaderInfo, metadata: &[PacketMetadata]) -> Result<Vec<u8>, String> {
    if let Some(unknown) =
        metadata.iter().find(|given| !header.fields.iter().any(|f| f.id == given.metadata_id))
    {
        let valid: Vec<_> =
            header.fields.iter().map(|field| format!("{} ({})", field.id, field.name)).collect();
        return Err(format!(
            "no metadata field with id {}; valid are {}",
            unknown.metadata_id,
            valid.join(", ")
        ));
    }
    let mut bytes = vec![0; header.bits().div_ceil(8) as usize];
    let mut at = 0;
    for field in &header.fields {
        let mut values = metadata.iter().filter(|given| given.metadata_id == field.id);
        let (Some(given), None) = (values.next(), values.next()) else {
            let times = metadata.iter().filter(|given| given.metadata_id == field.id).count();
            return Err(format!("metadata field {} is given {times} times, expected once", field.name));
        };
        let value = bytestring::fit(&given.value, field.width)
            .map_err(|error| format!("metadata field {}: {error}", field.name))?;
        put_bits(&mut bytes, at, field.width, value);
        at += field.width as usize;
    }
    Ok(bytes)
}

/// `width` bits from bit `at` (counted from the highest of the first byte), in shortest form.
fn bits(bytes: &[u8], at: usize, width: u32) -> Vec<u8> {
    let width = width as usize;
    let mut value = vec![0u8; width.div_ceil(8)];
    let length = value.len();
    for i in 0..width {
        let source = at + width - 1 - i;
        let bit = bytes[source / 8] >> (7 - source % 8) & 1;
        value[length - 1 - i / 8] |= bit << (i % 8);
    }
    bytestring::canonical(&value).to_vec()
}

fn put_bits(bytes: &mut [u8], at: usize, width: u32, value: &[u8]) {
    let width = width as usize;
    for i in 0..width.min(value.len() * 8) {
        let bit = value[value.len() - 1 - i / 8] >> (i % 8) & 1;
        let target = at + width - 1 - i;
        bytes[target / 8] |= bit << (7 - target % 8);
    }
}
