//! Control flow: pipelines, and the conditions of checksums.

use super::super::ast::{Expr, FlowNode, Next, Pipeline};
use super::super::op::{END, KeySource, Loc, Op, Pc};
use super::super::{MatchKind, Objects};
use super::{KeyPacker, Label, Lowering, Result};

/// A pipeline's code.
pub(crate) struct LoweredPipeline {
    pub(crate) start: Pc,
    /// Address of each node.
    pub(crate) nodes: Vec<Pc>,
    /// All code of the pipeline, from here to there (routines of actions are elsewhere).
    pub(crate) range: (Pc, Pc),
}

impl Lowering<'_> {
    pub(crate) fn pipeline(&mut self, pipeline: &Pipeline, objects: &Objects) -> Result<LoweredPipeline> {
        let labels: Vec<Label> = pipeline.nodes.iter().map(|_| self.label()).collect();
        let first = self.here();
        let mut placed = vec![false; labels.len()];
        // Depth-first along the likely way, so that most nodes fall through to the next.
        let mut pending: Vec<usize> = (0..labels.len()).rev().collect();
        pending.extend(pipeline.start);
        while let Some(index) = pending.pop() {
            let mut at = Some(index);
            while let Some(index) = at.filter(|i| !placed[*i]) {
                placed[index] = true;
                self.path.clone_from(&pipeline.paths[index]);
                self.place(labels[index]);
                self.reset_temps();
                at = self.node(&pipeline.nodes[index], &labels, &placed, objects)?;
            }
        }
        let nodes: Vec<Pc> = labels.iter().map(|l| self.address(*l)).collect();
        Ok(LoweredPipeline {
            start: pipeline.start.map_or(END, |i| nodes[i]),
            nodes,
            range: (first, self.here()),
        })
    }

    /// Lowers one node; returns the node to place right behind it, to which it falls through.
    fn node(
        &mut self,
        node: &FlowNode,
        labels: &[Label],
        placed: &[bool],
        objects: &Objects,
    ) -> Result<Option<usize>> {
        match node {
            FlowNode::Condition { expr, then, other } => {
                match other {
                    Some(o) => self.branch(expr, false, labels[*o])?,
                    None => {
                        let end = self.end_label();
                        self.branch(expr, false, end)?;
                    }
                }
                Ok(self.go(*then, labels, placed))
            }
            FlowNode::Call { action, next } => {
                if self.action_body(*action)? {
                    self.emit(Op::CheckExit);
                }
                Ok(self.go(*next, labels, placed))
            }
            FlowNode::Table(index) => {
                let table = &self.ast.tables[*index];
                let info = &objects.tables[*index];
                let inline = match &table.default {
                    Some((action, _)) if table.keys.is_empty() && info.const_default && !info.has_counter => {
                        self.ast.actions[*action].params.is_empty().then_some(*action)
                    }
                    _ => None,
                };
                let Some(action) = inline else {
                    self.emit(Op::Apply { table: *index as u32 });
                    return Ok(None);
                };
                // A table without key whose only action is fixed: p4c's form of statements outside actions.
                if self.action_body(action)? {
                    self.emit(Op::CheckExit);
                }
                let position = table.actions.iter().position(|a| *a == action);
                let next = table.miss_next.unwrap_or_else(|| position.and_then(|p| table.next[p]));
                Ok(self.go(next, labels, placed))
            }
        }
    }

    fn end_label(&mut self) -> Label {
        let label = self.label();
        self.place_at(label, END);
        label
    }

    fn go(&mut self, next: Next, labels: &[Label], placed: &[bool]) -> Option<usize> {
        match next {
            None => self.emit(Op::End),
            Some(i) if placed[i] => self.jump(Op::Jump { to: 0 }, labels[i]),
            Some(i) => return Some(i),
        }
        None
    }

    /// Code that ends with the condition's value in the limb returned.
    pub(crate) fn condition(&mut self, expr: &Expr, path: &str) -> Result<(Pc, Loc)> {
        path.clone_into(&mut self.path);
        self.reset_temps();
        let start = self.here();
        self.barrier = start as usize;
        let data = Expr::Unary(super::super::ast::UnOp::ToData, Box::new(expr.clone()));
        let at = self.low_bits(&data, 1)?;
        self.emit(Op::End);
        Ok((start, at))
    }

    /// The key of a table, packed.
    pub(crate) fn table_key(&mut self, table: usize) -> KeyPacker {
        let mut packer = KeyPacker::new();
        for key in &self.ast.tables[table].keys {
            let header = &self.layout.headers[key.target.header as usize];
            match header.fields.get(key.target.field as usize) {
                Some(field) if key.kind != MatchKind::Valid => {
                    let valid = if header.metadata { Loc::MAX } else { header.valid };
                    packer.push(KeySource::Memory(field.at), field.bits, valid);
                }
                _ => packer.push(KeySource::Memory(header.valid), 1, Loc::MAX),
            }
        }
        packer
    }
}
