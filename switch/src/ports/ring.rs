//! Receive rings in memory that kernel and switch share (`PACKET_RX_RING`, `TPACKET_V2`; Documentation/networking/packet_mmap.rst):
//! frames are read where the kernel put them, without a system call.
//!
//! Each slot holds one frame of the interface's MTU. Of a larger one (datagrams joined by segmentation offload) the kernel also queues the
//! whole to the socket (`PACKET_COPY_THRESH`) and says so in the slot, so that the order of frames is the ring's. Where the queue is full
//! too, the slot has the frame's beginning alone.

use std::io;
use std::mem::{MaybeUninit, offset_of, size_of};
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{sockaddr_ll, tpacket2_hdr};
use socket2::Socket;

use super::offload::{VNET_HEADER, VnetHeader};
use super::socket::set_option;

/// Memory of a ring, unless it takes more for [`LEAST_SLOTS`].
const RING_BYTES: usize = 2 << 20;
/// A burst that every ring holds, whatever the MTU.
const LEAST_SLOTS: usize = 256;
/// What the kernel allocates at once; pages without gaps while it has them.
const BLOCK: usize = 256 << 10;
/// Larger slots are not made: 256 of them take 4 MiB. Larger frames are queued whole.
const MAX_SLOT: usize = 16 << 10;
/// Before a frame in its slot: `tpacket2_hdr`, `sockaddr_ll`, the header about segments, and what aligns the network header.
const SLOT_HEADERS: usize = 80 + VNET_HEADER;
/// Ethernet's header with a VLAN tag.
const LINK_HEADER: usize = 18;
/// A multiple of the kernel's `TPACKET_ALIGNMENT`, and a cache line, so that no two slots share one.
const SLOT_ALIGN: usize = 64;

/// The kernel may fill the slot.
const OF_KERNEL: u32 = 0;
/// The frame is in the socket's queue as a whole.
const QUEUED: u32 = libc::TP_STATUS_COPY;
/// Our own: a [`Taken`] has the slot. The kernel only asks whether a slot is 0.
const TAKEN: u32 = 1 << 20;

/// The address behind a slot's header is aligned as the header is.
const ADDRESS: usize = size_of::<tpacket2_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);

/// A ring's memory.
#[derive(Debug)]
pub(super) struct Ring {
    base: NonNull<u8>,
    slot: usize,
    slots_per_block: usize,
    blocks: usize,
}

// SAFETY: the memory belongs to the process, not to a thread.
unsafe impl Send for Ring {}
// SAFETY: through a shared reference only statuses are read and written, as atomics; the rest of a slot is accessed through the one
// `Taken` that has it.
unsafe impl Sync for Ring {}

/// Filled slots in a row. They go back to the kernel one by one as they are looked at, the rest with this value.
#[derive(Debug)]
pub(super) struct Taken {
    ring: Arc<Ring>,
    next: usize,
    left: usize,
    /// How many of their frames are in the socket's queue.
    pub(super) queued: usize,
}

/// What is in a slot.
pub(super) enum Content<'a> {
    /// A frame and the header about its segments.
    Frame(&'a VnetHeader, &'a mut [u8]),
    /// A frame's beginning; the rest is lost.
    Cut(&'a [u8]),
    /// The next frame of the socket's queue.
    Queued,
    /// A frame that this machine sent; whether it is the next of the queue.
    Own { queued: bool },
}

/// How a ring for an MTU is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Layout {
    slot: usize,
    slots_per_block: usize,
    blocks: usize,
}

impl Layout {
    fn of(mtu: usize) -> Self {
        let slot = (SLOT_HEADERS + LINK_HEADER + mtu).next_multiple_of(SLOT_ALIGN).min(MAX_SLOT);
        let slots_per_block = BLOCK / slot;
        let blocks = (RING_BYTES / BLOCK).max(LEAST_SLOTS.div_ceil(slots_per_block));
        Self { slot, slots_per_block, blocks }
    }
}

impl Ring {
    /// Makes the ring of a socket that asked for headers about segments and is not bound yet.
    ///
    /// # Errors
    /// The kernel has no rings, or no memory. The socket is as before then.
    pub(super) fn make(socket: &Socket, mtu: usize) -> io::Result<Self> {
        let Layout { slot, slots_per_block, blocks } = Layout::of(mtu);
        set_option(
            socket,
            libc::SOL_PACKET,
            libc::PACKET_VERSION,
            &(libc::tpacket_versions::TPACKET_V2 as i32),
        )?;
        set_option(socket, libc::SOL_PACKET, libc::PACKET_COPY_THRESH, &1i32)?;
        let request = |blocks: usize| libc::tpacket_req {
            tp_block_size: BLOCK as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: slot as u32,
            tp_frame_nr: (blocks * slots_per_block) as u32,
        };
        set_option(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request(blocks))?;
        // SAFETY: a new mapping at an address of the system's choice; the result is checked.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                blocks * BLOCK,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                socket.as_raw_fd(),
                0,
            )
        };
        let Some(base) = NonNull::new(base.cast::<u8>()).filter(|_| base != libc::MAP_FAILED) else {
            let error = io::Error::last_os_error();
            let none =
                libc::tpacket_req { tp_block_size: 0, tp_block_nr: 0, tp_frame_size: 0, tp_frame_nr: 0 };
            set_option(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &none)?;
            return Err(error);
        };
        Ok(Self { base, slot, slots_per_block, blocks })
    }

    /// How many slots it has.
    pub(super) fn slots(&self) -> usize {
        self.blocks * self.slots_per_block
    }

    /// Takes what the kernel has filled from slot `first` on: at most `slots`, and at most `queued` frames of the socket's queue.
    /// `None` if nothing is there.
    pub(super) fn take(self: &Arc<Self>, first: usize, slots: usize, queued: usize) -> Option<Taken> {
        let mut taken = Taken { ring: Arc::clone(self), next: first, left: 0, queued: 0 };
        while taken.left < slots {
            let status = self.status((first + taken.left) % self.slots());
            // Acquire: the frame was written before the kernel set this.
            let is = status.load(Ordering::Acquire);
            if is & libc::TP_STATUS_USER == 0 || is & QUEUED != 0 && taken.queued == queued {
                break;
            }
            // Nobody else writes the status of a slot that the kernel has handed over.
            status.store(is & QUEUED | TAKEN, Ordering::Relaxed);
            taken.left += 1;
            taken.queued += usize::from(is & QUEUED != 0);
        }
        (taken.left > 0).then_some(taken)
    }

    fn address(&self, slot: usize) -> NonNull<u8> {
        let (block, place) = (slot / self.slots_per_block, slot % self.slots_per_block);
        debug_assert!(block < self.blocks);
        // SAFETY: a slot of the ring, and so inside the mapping.
        unsafe { self.base.add(block * BLOCK + place * self.slot) }
    }

    fn status(&self, slot: usize) -> &AtomicU32 {
        const { assert!(offset_of!(tpacket2_hdr, tp_status) == 0) };
        // SAFETY: the status is the first field of a slot, aligned as slots are, and lives as long as the mapping. Kernel and switch
        // access it whole alone.
        unsafe { AtomicU32::from_ptr(self.address(slot).as_ptr().cast()) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping that `make` made; no reference into it outlives the ring.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.blocks * BLOCK) };
    }
}

impl Taken {
    /// How many slots are left.
    pub(super) fn len(&self) -> usize {
        self.left
    }

    /// Empties the next slot into `each` and hands it back to the kernel. False if there is none.
    pub(super) fn next(&mut self, each: impl FnOnce(Content<'_>)) -> bool {
        if self.left == 0 {
            return false;
        }
        let status = self.ring.status(self.next);
        each(self.content(status.load(Ordering::Relaxed)));
        // Release: whatever was done with the frame is done before the kernel writes the next one there.
        status.store(OF_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.ring.slots();
        self.left -= 1;
        true
    }

    fn content(&self, status: u32) -> Content<'_> {
        let slot = self.ring.address(self.next);
        // SAFETY: the slot is ours until its status says otherwise, and the kernel has written header and address, which slots have
        // room for, at these offsets, aligned as their types ask for.
        let (header, address) =
            unsafe { (slot.cast::<tpacket2_hdr>().read(), slot.add(ADDRESS).cast::<sockaddr_ll>().read()) };
        let queued = status & QUEUED != 0;
        if address.sll_pkttype == libc::PACKET_OUTGOING {
            return Content::Own { queued };
        }
        if queued {
            return Content::Queued;
        }
        let (at, len) = (usize::from(header.tp_mac), header.tp_snaplen as usize);
        if at < ADDRESS + size_of::<sockaddr_ll>() + VNET_HEADER || at + len > self.ring.slot {
            return Content::Cut(&[]);
        }
        // SAFETY: both are inside the slot (just checked), apart from each other, and nothing else refers to them until the status
        // is set, which `next` does when the caller has returned them.
        let (vnet, frame) = unsafe {
            let frame = slot.add(at);
            (
                frame.sub(VNET_HEADER).cast::<VnetHeader>().as_ref(),
                std::slice::from_raw_parts_mut(frame.as_ptr(), len),
            )
        };
        if len < header.tp_len as usize { Content::Cut(frame) } else { Content::Frame(vnet, frame) }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        while self.next(|_| ()) {}
    }
}

/// The MTU of the interface with this name.
pub(super) fn mtu(socket: &Socket, interface: &std::ffi::CStr) -> io::Result<usize> {
    // SAFETY: all-zero is a valid value of this plain structure.
    let mut request: libc::ifreq = unsafe { MaybeUninit::zeroed().assume_init() };
    // The last byte stays 0. A longer name is not an interface's.
    let room = request.ifr_name.len() - 1;
    for (to, byte) in request.ifr_name[..room].iter_mut().zip(interface.to_bytes()) {
        *to = *byte as libc::c_char;
    }
    // SAFETY: `request` lives through the call, which reads the name and writes the MTU.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU as _, &raw mut request) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the field that the call has written.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    Ok(usize::try_from(mtu).unwrap_or(0))
}

#[cfg(test)]
mod tests;
