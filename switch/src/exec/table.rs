//! Tables at run time: entries, and the index that finds them. What is shared with older snapshots is behind an [`Arc`], so that a
//! copy for the next snapshot costs a counter for each entry, not its keys.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::control::{EntryAction, EntryKey, TableEntry};
use crate::program::op::Pc;
use crate::program::{IndexKind, TableSpec};

/// What a lookup leads to.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    /// Run the code with these arguments, go on at `next`.
    Call {
        code: Pc,
        next: Pc,
        args: Box<[u64]>,
    },
    /// Run nothing, go on at `next`.
    Nothing {
        next: Pc,
    },
    Member(u32),
    Group(u32),
    /// A group of this entry's own: calls repeated by weight.
    OneShot(Box<[Target]>),
}

/// What the control plane says about an entry. What packets do to it is in [`super::state::Hits`].
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) target: Target,
    pub(crate) is_const: bool,
    pub(crate) entry: TableEntry,
    /// Order of insertion; never used again in this table.
    pub(crate) serial: u64,
    /// When it was written last: it is idle from here if no packet hits it.
    pub(crate) written_us: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Table {
    index: Index,
    entries: Vec<Option<Arc<Entry>>>,
    free: BinaryHeap<Reverse<u32>>,
    handles: FxHashMap<Arc<EntryKey>, u32>,
    pub(crate) default: Target,
    pub(crate) default_action: Option<EntryAction>,
    next_serial: u64,
}

/// An entry's key as the index wants it.
#[derive(Debug, Clone)]
pub(crate) struct PackedKey {
    pub(crate) value: Vec<u64>,
    pub(crate) mask: Vec<u64>,
    /// Prefix length of the lpm field.
    pub(crate) prefix_len: u32,
    /// Bounds of the range fields, in order.
    pub(crate) ranges: Vec<Bounds>,
}

/// Lowest and highest value, as limbs.
type Bounds = (Vec<u64>, Vec<u64>);

#[derive(Debug, Clone)]
enum Index {
    /// No key: always a miss.
    None,
    /// Keys of one limb.
    Exact1(FxHashMap<u64, u32>),
    Exact(FxHashMap<Arc<[u64]>, u32>),
    /// By prefix length, longest first.
    Lpm(Vec<PrefixGroup>),
    /// By priority, then handle: the first that matches wins.
    Rows(Rows),
}

#[derive(Debug, Clone)]
struct PrefixGroup {
    prefix_len: u32,
    mask: Arc<[u64]>,
    map: FxHashMap<Arc<[u64]>, u32>,
}

#[derive(Debug, Clone, Default)]
struct Rows {
    limbs: usize,
    order: Vec<(Reverse<i32>, u32)>,
    /// Mask and value of each row, `2 * limbs` limbs a row.
    words: Vec<u64>,
    /// Of each row, bounds of its range fields.
    ranges: Vec<Arc<[Bounds]>>,
    /// Limbs of each range field in the packed key.
    range_limbs: Vec<RangeField>,
}

#[derive(Debug, Clone, Copy)]
struct RangeField {
    limb: usize,
    limbs: usize,
    shift: u8,
    mask: u64,
}

impl Table {
    pub(crate) fn new(spec: &TableSpec) -> Self {
        let index = match spec.index {
            IndexKind::None => Index::None,
            IndexKind::Exact if spec.key_limbs == 1 => Index::Exact1(FxHashMap::default()),
            IndexKind::Exact => Index::Exact(FxHashMap::default()),
            IndexKind::Lpm => Index::Lpm(Vec::new()),
            IndexKind::Rows => Index::Rows(Rows {
                limbs: spec.key_limbs,
                range_limbs: spec
                    .range_parts()
                    .map(|(p, bits)| RangeField {
                        limb: usize::from(p.limb),
                        limbs: usize::from(p.limbs),
                        shift: p.shift,
                        mask: if bits >= 64 { u64::MAX } else { (1 << bits) - 1 },
                    })
                    .collect(),
                ..Rows::default()
            }),
        };
        Self {
            index,
            entries: Vec::new(),
            free: BinaryHeap::new(),
            handles: FxHashMap::default(),
            default: Target::Nothing { next: crate::program::op::END },
            default_action: None,
            next_serial: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.handles.len()
    }

    pub(crate) fn find(&self, key: &EntryKey) -> Option<u32> {
        self.handles.get(key).copied()
    }

    #[inline(always)]
    pub(crate) fn entry(&self, handle: u32) -> Option<&Entry> {
        self.entries.get(handle as usize)?.as_deref()
    }

    pub(crate) fn shared_entry(&self, handle: u32) -> Option<Arc<Entry>> {
        self.entries.get(handle as usize)?.clone()
    }

    /// All entries with their handles, in order of insertion.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Entry)> {
        let entries = self.entries.iter().enumerate();
        let mut all: Vec<(u32, &Entry)> =
            entries.filter_map(|(handle, e)| Some((handle as u32, e.as_deref()?))).collect();
        all.sort_by_key(|(_, e)| e.serial);
        all.into_iter()
    }

    /// Adds an entry that is not there yet.
    pub(crate) fn insert(&mut self, key: EntryKey, packed: PackedKey, mut entry: Entry) {
        entry.serial = self.next_serial;
        self.next_serial += 1;
        // The lowest free handle, as BMv2 gives them: among equal priorities the lower handle wins.
        let handle = match self.free.pop() {
            Some(Reverse(h)) => h,
            None => {
                self.entries.push(None);
                self.entries.len() as u32 - 1
            }
        };
        self.index.insert(packed, key.priority, handle);
        self.handles.insert(key.into(), handle);
        self.entries[handle as usize] = Some(entry.into());
    }

    /// Puts another entry in the place of one, which keeps its key, counter and meter.
    pub(crate) fn replace(&mut self, handle: u32, entry: Entry) {
        if let Some(Some(old)) = self.entries.get_mut(handle as usize) {
            *old = Arc::new(Entry { serial: old.serial, ..entry });
        }
    }

    /// False: there was none.
    pub(crate) fn remove(&mut self, key: &EntryKey, packed: &PackedKey) -> bool {
        let Some(handle) = self.handles.remove(key) else { return false };
        self.index.remove(packed, key.priority, handle);
        self.free.push(Reverse(handle));
        self.entries[handle as usize] = None;
        true
    }

    #[inline]
    pub(crate) fn lookup(&self, key: &[u64], scratch: &mut Vec<u64>) -> Option<u32> {
        match &self.index {
            Index::None => None,
            Index::Exact1(map) => map.get(&key[0]).copied(),
            Index::Exact(map) => map.get(key).copied(),
            Index::Lpm(groups) => groups.iter().find_map(|g| {
                scratch.clear();
                scratch.extend(key.iter().zip(&*g.mask).map(|(k, m)| k & m));
                g.map.get(scratch.as_slice()).copied()
            }),
            Index::Rows(rows) => rows.lookup(key),
        }
    }
}

impl Index {
    fn insert(&mut self, key: PackedKey, priority: i32, handle: u32) {
        match self {
            Self::None => {}
            Self::Exact1(map) => drop(map.insert(key.value[0], handle)),
            Self::Exact(map) => drop(map.insert(key.value.into(), handle)),
            Self::Lpm(groups) => {
                let at = groups.partition_point(|g| g.prefix_len > key.prefix_len);
                if groups.get(at).is_none_or(|g| g.prefix_len != key.prefix_len) {
                    let group = PrefixGroup {
                        prefix_len: key.prefix_len,
                        mask: key.mask.into(),
                        map: FxHashMap::default(),
                    };
                    groups.insert(at, group);
                }
                groups[at].map.insert(key.value.into(), handle);
            }
            Self::Rows(rows) => {
                let place = (Reverse(priority), handle);
                let at = rows.order.partition_point(|p| *p < place);
                rows.order.insert(at, place);
                let words = key.mask.into_iter().chain(key.value);
                let from = at * 2 * rows.limbs;
                rows.words.splice(from..from, words);
                rows.ranges.insert(at, key.ranges.into());
            }
        }
    }

    fn remove(&mut self, key: &PackedKey, priority: i32, handle: u32) {
        match self {
            Self::None => {}
            Self::Exact1(map) => drop(map.remove(&key.value[0])),
            Self::Exact(map) => drop(map.remove(key.value.as_slice())),
            Self::Lpm(groups) => {
                if let Some(at) = groups.iter().position(|g| g.prefix_len == key.prefix_len) {
                    groups[at].map.remove(key.value.as_slice());
                    if groups[at].map.is_empty() {
                        groups.remove(at);
                    }
                }
            }
            Self::Rows(rows) => {
                if let Ok(at) = rows.order.binary_search(&(Reverse(priority), handle)) {
                    rows.order.remove(at);
                    let from = at * 2 * rows.limbs;
                    rows.words.drain(from..from + 2 * rows.limbs);
                    rows.ranges.remove(at);
                }
            }
        }
    }
}

impl Rows {
    fn lookup(&self, key: &[u64]) -> Option<u32> {
        let found = match key {
            [k] => self
                .words
                .as_chunks::<2>()
                .0
                .iter()
                .enumerate()
                .position(|(i, [mask, value])| k & mask == *value && self.in_ranges(i, key)),
            _ => self.words.chunks_exact(2 * self.limbs).enumerate().position(|(i, row)| {
                let (masks, values) = row.split_at(self.limbs);
                key.iter().zip(masks).zip(values).all(|((k, m), v)| k & m == *v) && self.in_ranges(i, key)
            }),
        };
        found.map(|i| self.order[i].1)
    }

    #[inline]
    fn in_ranges(&self, row: usize, key: &[u64]) -> bool {
        self.range_limbs.iter().zip(&*self.ranges[row]).all(|(field, (low, high))| {
            if field.limbs == 1 {
                let value = (key[field.limb] >> field.shift) & field.mask;
                low[0] <= value && value <= high[0]
            } else {
                let value = &key[field.limb..field.limb + field.limbs];
                super::wide::compare(low, value, false).is_le()
                    && super::wide::compare(value, high, false).is_le()
            }
        })
    }
}
