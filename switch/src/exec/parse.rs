//! Operations of the parser.

use super::run::{Machine, ParserError};
use super::{PacketState, wire};
use crate::program::Program;
use crate::program::op::Op;

impl Machine {
    pub(super) fn parse(
        &mut self,
        program: &Program,
        packet: &mut PacketState,
        frame: &[u8],
        op: Op,
    ) -> Result<(), ParserError> {
        let errors = &program.errors;
        match op {
            Op::Extract { header } => self.extract(program, packet, frame, header, None),
            Op::ExtractNext { stack } => {
                let stack = &program.layout.stacks[stack as usize];
                let at = self.get(stack.next) as usize;
                let Some(header) = stack.headers.get(at) else {
                    return Err(ParserError(errors.stack_out_of_bounds));
                };
                self.extract(program, packet, frame, *header, None)?;
                self.set(stack.next, at as u64 + 1);
                Ok(())
            }
            Op::ExtractUnionNext { stack, member } => {
                let stack = &program.layout.union_stacks[stack as usize];
                let at = self.get(stack.next) as usize;
                let Some(element) = stack.elements.get(at) else {
                    return Err(ParserError(errors.stack_out_of_bounds));
                };
                self.extract(program, packet, frame, element[member as usize], None)?;
                self.set(stack.next, at as u64 + 1);
                Ok(())
            }
            Op::ExtractVariable { header, bits } => {
                let bits = self.get(bits);
                self.extract(program, packet, frame, header, Some(bits))
            }
            Op::ExtractNextVariable { stack, bits } => {
                let stack = &program.layout.stacks[stack as usize];
                let at = self.get(stack.next) as usize;
                let Some(header) = stack.headers.get(at) else {
                    return Err(ParserError(errors.stack_out_of_bounds));
                };
                let bits = self.get(bits);
                self.extract(program, packet, frame, *header, Some(bits))?;
                self.set(stack.next, at as u64 + 1);
                Ok(())
            }
            Op::Lookahead { d, n, offset, bits } => {
                let at = packet.parsed * 8 + offset as usize;
                if at + bits as usize > frame.len() * 8 {
                    return Err(ParserError(errors.packet_too_short));
                }
                wire::read_value(frame, at, bits, self.slice_mut(d, n));
                Ok(())
            }
            Op::Advance { bits } => {
                let bits = self.get(bits);
                if !bits.is_multiple_of(8) {
                    return Err(ParserError(errors.invalid_argument));
                }
                if ((frame.len() - packet.parsed) as u64) < bits / 8 {
                    return Err(ParserError(errors.packet_too_short));
                }
                packet.parsed += (bits / 8) as usize;
                Ok(())
            }
            Op::ParserError { error } => Err(ParserError(self.get(error))),
            _ => Ok(()),
        }
    }

    #[inline(always)]
    pub(super) fn extract(
        &mut self,
        program: &Program,
        packet: &mut PacketState,
        frame: &[u8],
        header: u32,
        variable_bits: Option<u64>,
    ) -> Result<(), ParserError> {
        let spec = &program.layout.headers[header as usize];
        let rest = frame.get(packet.parsed..).unwrap_or(&[]);
        let mut len = spec.bytes as usize;
        let mut bits = 0;
        if let (Some((field, len_at)), Some(given)) = (spec.variable, variable_bits) {
            if given % 8 != 0 {
                return Err(ParserError(program.errors.invalid_argument));
            }
            len += (given / 8) as usize;
            if rest.len() < len {
                return Err(ParserError(program.errors.packet_too_short));
            }
            if given > u64::from(spec.fields[field as usize].bits) {
                return Err(ParserError(program.errors.header_too_short));
            }
            bits = given as u32;
            self.set(len_at, given);
        }
        if rest.len() < len {
            return Err(ParserError(program.errors.packet_too_short));
        }
        wire::extract(spec, rest, bits, &mut self.mem);
        packet.parsed += len;
        self.mark_valid(program, header);
        Ok(())
    }
}
