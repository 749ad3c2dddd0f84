//! Calculations, counters, meters, registers, checksums, learn lists, field lists.

use super::super::ast::{CalcInput, Calculation, Checksum, MeterArray, VALID};
use super::super::info::{CounterInfo, DigestInfo, MeterInfo, MeterUnit, RegisterInfo};
use super::super::json::Node;
use super::expr::Scope;
use super::{MAX_BITS, MAX_SIZE, Reader, Result};
use crate::exec::hash::Algorithm;

/// Most bits of all registers together: 4 GiB.
const MAX_REGISTER_BITS: u64 = 1 << 35;

impl Reader {
    pub(super) fn calculations(&mut self, root: &Node) -> Result<()> {
        for node in root.get("calculations").items()? {
            let name = node.get("name").string()?.to_owned();
            let algorithm = hash_algorithm(&node.get("algo"))?;
            let mut calculation = Calculation { algorithm, input: Vec::new(), with_payload: false };
            for input in node.get("input").items()? {
                match self.calc_input(&input)? {
                    Some(i) => calculation.input.push(i),
                    None => calculation.with_payload = true,
                }
            }
            self.names.calculations.insert(name, self.ast.calculations.len() as u32);
            self.ast.calculations.push(calculation);
        }
        Ok(())
    }

    /// `None`: the payload.
    pub(super) fn calc_input(&self, node: &Node) -> Result<Option<CalcInput>> {
        let value = node.get("value");
        Ok(Some(match node.get("type").string()? {
            "field" => {
                let field = self.field(&value)?;
                if field.field == VALID {
                    return Err(value.unsupported("header validity in a calculation"));
                }
                CalcInput::Field(field)
            }
            "hexstr" => {
                let bits = node.get("bitwidth").bounded(MAX_BITS)? as u32;
                match value.hex()?.to_bytes(bits.div_ceil(8) as usize) {
                    Some(bytes) => CalcInput::Const { bytes, bits },
                    None => return value.wrong(format!("a value of at most {bits} bits")),
                }
            }
            "header" => CalcInput::Header(self.fixed_header(node)?),
            "payload" => return Ok(None),
            _ => return node.get("type").wrong("field, hexstr, header or payload"),
        }))
    }

    pub(super) fn counters(&mut self, root: &Node) -> Result<()> {
        for node in root.get("counter_arrays").items()? {
            let name = node.get("name").string()?.to_owned();
            if node.get("is_direct").flag(false)? {
                let table = node.get("binding").optional_string()?.unwrap_or_default().to_owned();
                self.names.direct_counters.insert(table, name);
                continue;
            }
            let size = node.get("size").bounded(MAX_SIZE)?;
            self.names.counters.insert(name.clone(), self.objects.counters.len() as u32);
            self.objects.counters.push(CounterInfo { name, size });
        }
        Ok(())
    }

    pub(super) fn meters(&mut self, root: &Node) -> Result<()> {
        for node in root.get("meter_arrays").items()? {
            let name = node.get("name").string()?.to_owned();
            let unit = match node.get("type").string()? {
                "packets" => MeterUnit::Packets,
                "bytes" => MeterUnit::Bytes,
                _ => return node.get("type").wrong("packets or bytes"),
            };
            let direct = node.get("is_direct").flag(false)?;
            let size = node.get("size").bounded(MAX_SIZE)?;
            let direct_target = match direct {
                true => Some(self.field(&node.get("result_target"))?),
                false => None,
            };
            self.names.meters.insert(name.clone(), self.ast.meters.len() as u32);
            self.ast.meters.push(MeterArray { unit, size, direct_target });
            self.objects.meters.push(MeterInfo { name, size, unit });
        }
        Ok(())
    }

    pub(super) fn registers(&mut self, root: &Node) -> Result<()> {
        let mut total = 0u64;
        for node in root.get("register_arrays").items()? {
            let name = node.get("name").string()?.to_owned();
            let size = node.get("size").bounded(MAX_SIZE)?;
            let bits = node.get("bitwidth").bounded(MAX_BITS)? as u32;
            if bits == 0 {
                return node.get("bitwidth").wrong("a width of at least 1");
            }
            total += size as u64 * u64::from(bits.next_multiple_of(64));
            if total > MAX_REGISTER_BITS {
                return node
                    .get("size")
                    .wrong(format!("registers of at most {} MiB in all", MAX_REGISTER_BITS >> 23));
            }
            self.names.registers.insert(name.clone(), self.objects.registers.len() as u32);
            self.objects.registers.push(RegisterInfo { name, size, bits });
        }
        Ok(())
    }

    pub(super) fn checksums(&mut self, root: &Node) -> Result<()> {
        for node in root.get("checksums").items()? {
            let target = self.field(&node.get("target"))?;
            if target.field == VALID || self.is_variable(target) {
                return node.get("target").wrong("a fixed-length field");
            }
            if node.get("type").string()? != "generic" {
                return Err(node.get("type").unsupported("a checksum of another type than generic"));
            }
            let name = node.get("calculation");
            let calculation = self.names.calculations.get(name.string()?).copied();
            let calculation =
                calculation.ok_or_else(|| name.dangling("calculation", name.string().unwrap_or("")))?;
            let condition = node.get("if_cond");
            let condition = match condition.is_null() {
                true => None,
                false => Some(self.boolean(&condition, Scope::NONE)?),
            };
            self.ast.checksums.push(Checksum {
                target,
                calculation,
                condition,
                update: node.get("update").flag(true)?,
                verify: node.get("verify").flag(true)?,
                path: node.path(),
            });
        }
        Ok(())
    }

    pub(super) fn learn_lists(&mut self, root: &Node) -> Result<()> {
        for node in root.get("learn_lists").items()? {
            let id = node.get("id").unsigned()?;
            let mut fields = Vec::new();
            for element in node.get("elements").items()? {
                if element.get("type").string()? != "field" {
                    return Err(element.unsupported("a digest element that is not a field"));
                }
                fields.push(self.field(&element.get("value"))?);
            }
            let field_bits = fields.iter().map(|f| self.field_bits(*f)).collect();
            self.objects.digests.push(DigestInfo { name: node.get("name").string()?.to_owned(), field_bits });
            self.ast.learn_lists.push((id, fields));
        }
        Ok(())
    }

    pub(super) fn field_lists(&mut self, root: &Node) -> Result<()> {
        for node in root.get("field_lists").items()? {
            let mut fields = Vec::new();
            for element in node.get("elements").items()? {
                match element.get("type").string()? {
                    "field" => {
                        let field = self.field(&element.get("value"))?;
                        if field.field == VALID || self.is_variable(field) {
                            return Err(element.unsupported("this field in a field list"));
                        }
                        fields.push(field);
                    }
                    "hexstr" => {}
                    _ => return element.get("type").wrong("field or hexstr"),
                }
            }
            self.ast.field_lists.insert(node.get("id").unsigned()?, fields);
        }
        Ok(())
    }
}

pub(super) fn hash_algorithm(node: &Node) -> Result<Algorithm> {
    let name = node.string()?;
    Algorithm::from_name(name).ok_or_else(|| node.unsupported(format!("hash algorithm {name:?}")))
}
