//! Header types, headers, stacks, unions, aliases, errors, value sets.

use super::super::ast::{FieldType, Header, HeaderType, Stack, Union, UnionStack};
use super::super::info::ValueSetInfo;
use super::super::json::Node;
use super::{MAX_BITS, MAX_SIZE, Reader, Result};

impl Reader {
    pub(super) fn header_types(&mut self, root: &Node) -> Result<()> {
        for node in root.get("header_types").items()? {
            let name = node.get("name").string()?;
            let mut fields = Vec::new();
            let (mut total, mut variable) = (0u64, None);
            for field in node.get("fields").items()? {
                let parts = field.items()?;
                if parts.len() < 2 {
                    return field.wrong("a field as [name, width, signed, saturating]");
                }
                let flag = |i: usize| parts.get(i).map_or(Ok(false), |n| n.flag(false));
                let is_variable = matches!(parts[1].string(), Ok("*"));
                let bits = if is_variable {
                    if variable.replace(fields.len()).is_some() {
                        return field.wrong("at most one variable field in a header");
                    }
                    0
                } else {
                    let bits = parts[1].bounded(MAX_BITS)? as u32;
                    if bits == 0 {
                        return parts[1].wrong("a width of at least 1");
                    }
                    bits
                };
                total += u64::from(bits);
                fields.push(FieldType {
                    name: parts[0].string()?.to_owned(),
                    bits,
                    signed: flag(2)?,
                    saturating: flag(3)?,
                    variable: is_variable,
                });
            }
            if total % 8 != 0 {
                return node.get("fields").wrong(format!("fields that fill whole bytes ({total} bits)"));
            }
            if let Some(i) = variable {
                let most = node.get("max_length").bounded(MAX_BITS / 8)? as u64 * 8;
                let Some(bits) = most.checked_sub(total) else {
                    return node.get("max_length").wrong("at least the length of the fixed fields");
                };
                fields[i].bits = bits as u32;
                if node.has("length_exp") {
                    return Err(node.get("length_exp").unsupported("a length expression in a header type"));
                }
            }
            self.names.types.insert(name.to_owned(), self.ast.types.len());
            self.ast.types.push(HeaderType { fields });
        }
        Ok(())
    }

    pub(super) fn headers(&mut self, root: &Node) -> Result<()> {
        for node in root.get("headers").items()? {
            let name = node.get("name").string()?;
            let ty = self.type_of(&node.get("header_type"))?;
            let index = self.ast.headers.len() as u32;
            let metadata = node.get("metadata").flag(false)?;
            if self.names.headers.insert(name.to_owned(), index).is_some() {
                return node.get("name").wrong("a header name that is used once");
            }
            self.names.header_ids.insert(node.get("id").integer()?, index);
            self.ast.headers.push(Header { name: name.to_owned(), ty, metadata, union_peers: Vec::new() });
        }
        self.header_stacks(root)?;
        self.header_unions(root)
    }

    fn type_of(&self, node: &Node) -> Result<usize> {
        let name = node.string()?;
        self.names.types.get(name).copied().ok_or_else(|| node.dangling("header type", name))
    }

    fn header_stacks(&mut self, root: &Node) -> Result<()> {
        let mut taken = std::collections::HashSet::new();
        for node in root.get("header_stacks").items()? {
            let name = node.get("name").string()?;
            let ty = self.type_of(&node.get("header_type"))?;
            let mut headers = Vec::new();
            for id in node.get("header_ids").items()? {
                let header = self.names.header_ids.get(&id.integer()?).copied();
                let header =
                    header.ok_or_else(|| id.dangling("header with id", id.integer().unwrap_or(0)))?;
                if self.ast.headers[header as usize].ty != ty || !taken.insert(header) {
                    return id.wrong("a header of the stack's type that is in no other stack");
                }
                headers.push(header);
            }
            if headers.is_empty() {
                return node.get("header_ids").wrong("at least one header");
            }
            self.names.stacks.insert(name.to_owned(), self.ast.stacks.len() as u32);
            self.ast.stacks.push(Stack { ty, headers });
        }
        Ok(())
    }

    fn header_unions(&mut self, root: &Node) -> Result<()> {
        for node in root.get("header_union_types").items()? {
            let mut members = Vec::new();
            for member in node.get("headers").items()? {
                members.push(member.tuple(2)?[0].string()?.to_owned());
            }
            self.names.union_types.insert(node.get("name").string()?.to_owned(), members);
        }
        for node in root.get("header_unions").items()? {
            let ty = node.get("union_type");
            let members = self.names.union_types.get(ty.string()?).cloned();
            let members =
                members.ok_or_else(|| ty.dangling("header union type", ty.string().unwrap_or("")))?;
            let mut headers = Vec::new();
            for id in node.get("header_ids").items()? {
                let header = self.names.header_ids.get(&id.integer()?).copied();
                headers.push(header.ok_or_else(|| id.dangling("header with id", id.integer().unwrap_or(0)))?);
            }
            if headers.len() != members.len() {
                return node.get("header_ids").wrong(format!("{} headers, as its type", members.len()));
            }
            for header in &headers {
                let peers = headers.iter().copied().filter(|h| h != header).collect();
                self.ast.headers[*header as usize].union_peers = peers;
            }
            let name = node.get("name").string()?.to_owned();
            let index = self.ast.unions.len() as u32;
            self.names.unions.insert(name, index);
            self.names.union_ids.insert(node.get("id").integer()?, index);
            self.ast.unions.push(Union { headers, members });
        }
        for node in root.get("header_union_stacks").items()? {
            let mut unions = Vec::new();
            for id in node.get("header_union_ids").items()? {
                let union = self.names.union_ids.get(&id.integer()?).copied();
                unions.push(
                    union.ok_or_else(|| id.dangling("header union with id", id.integer().unwrap_or(0)))?,
                );
            }
            if unions.is_empty() {
                return node.get("header_union_ids").wrong("at least one header union");
            }
            let members = &self.ast.unions[unions[0] as usize].members;
            if unions.iter().any(|u| self.ast.unions[*u as usize].members != *members) {
                return node.get("header_union_ids").wrong("header unions of one type");
            }
            let name = node.get("name").string()?.to_owned();
            self.names.union_stacks.insert(name, self.ast.union_stacks.len() as u32);
            self.ast.union_stacks.push(UnionStack { unions });
        }
        Ok(())
    }

    pub(super) fn aliases(&mut self, root: &Node) -> Result<()> {
        for node in root.get("field_aliases").items()? {
            let parts = node.tuple(2)?;
            let target = self.field(&parts[1])?;
            self.ast.aliases.insert(parts[0].string()?.to_owned(), target);
        }
        Ok(())
    }

    pub(super) fn errors(&mut self, root: &Node) -> Result<()> {
        for node in root.get("errors").items()? {
            let parts = node.tuple(2)?;
            let code = parts[1].bounded((1 << 31) - 2)? as u64;
            self.ast.errors.insert(parts[0].string()?.to_owned(), code);
        }
        Ok(())
    }

    pub(super) fn value_sets(&mut self, root: &Node) -> Result<()> {
        for node in root.get("parse_vsets").items()? {
            let name = node.get("name").string()?.to_owned();
            let bits = node.get("compressed_bitwidth").bounded(MAX_BITS)? as u32;
            let size = match node.get("max_size") {
                n if n.is_null() => 1024,
                n => n.bounded(MAX_SIZE)?,
            };
            self.names.value_sets.insert(name.clone(), self.objects.value_sets.len() as u32);
            self.objects.value_sets.push(ValueSetInfo { name, bits, size });
        }
        Ok(())
    }
}
