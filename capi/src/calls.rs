//! The collectives.
//!
//! All of them take elements of `dtype`, an `inca_type`, and a timeout in seconds (infinity: none).

use std::ffi::c_void;

use inca_host_agent::communicator::RawCall;
use inca_host_agent::{Collective, Dtype};

use crate::group::{Group, seconds};
use crate::operation::Operation;
use crate::status::{Status, invalid};
use crate::types::{dtype, reduction};

/// Where an empty tensor is: never read, but neither null nor misaligned.
pub(crate) const NOWHERE: *mut c_void = std::ptr::without_provenance_mut(64);

/// A call as C hands it over.
struct Given {
    group: *const Group,
    collective: Collective,
    input: (*const c_void, usize),
    output: (*mut c_void, usize),
    dtype: i32,
    reduction: i32,
    timeout: f64,
}

/// Starts a call.
///
/// # Safety
///
/// `group` must be null or a group that was not left; the memory as `Communicator::start_raw` demands it, or null.
unsafe fn start(given: Given) -> Result<Operation, Status> {
    // SAFETY: as demanded.
    let group = unsafe { given.group.as_ref() }.ok_or_else(|| invalid("group is null"))?;
    let dtype = dtype(given.dtype).ok_or_else(|| invalid(format!("{} is no inca_type", given.dtype)))?;
    let op = reduction(given.reduction);
    let op = op.ok_or_else(|| invalid(format!("{} is no inca_reduction", given.reduction)))?;
    let deadline = seconds(given.timeout).ok_or_else(|| invalid("timeout must be 0 or more"))?;
    let (mut input, mut output) = (given.input, given.output);
    check("input", input, dtype)?;
    check("output", (output.0.cast_const(), output.1), dtype)?;
    if input.1 == 0 {
        input.0 = NOWHERE;
    }
    if output.1 == 0 {
        output.0 = NOWHERE;
    }
    let call = RawCall {
        collective: given.collective,
        op,
        dtype,
        input: (input.0.cast(), input.1),
        output: (output.0.cast(), output.1),
    };
    // SAFETY: as demanded; null was refused, and empty tensors have an address.
    Ok(Operation::new(unsafe { group.0.start_raw(call, deadline, Box::new(())) }))
}

/// Whether there may be so many elements.
pub(crate) fn check(
    what: &str,
    (pointer, count): (*const c_void, usize),
    dtype: Dtype,
) -> Result<(), Status> {
    let align = (dtype.bits() as usize / 8).max(1);
    if count > 0 && (pointer.is_null() || pointer.align_offset(align) != 0) {
        return Err(invalid(format!("{what} is null or not aligned for {dtype}")));
    }
    if count > isize::MAX as usize / 8 {
        return Err(invalid(format!("{what} of {count} elements: more than memory can hold")));
    }
    Ok(())
}

/// # Safety
///
/// As [`start`].
unsafe fn run(given: Given) -> Status {
    // SAFETY: as demanded; the call has ended when this returns.
    match unsafe { start(given) } {
        Ok(operation) => operation.wait(None).unwrap_or(Status::Failed),
        Err(status) => status,
    }
}

/// # Safety
///
/// As [`start`]; `operation` must be null or point to memory for a pointer.
unsafe fn begin(given: Given, operation: *mut *mut Operation) -> Status {
    if operation.is_null() {
        return invalid("operation is null");
    }
    // SAFETY: as demanded.
    match unsafe { start(given) } {
        Ok(started) => {
            // SAFETY: as demanded; it is not null.
            unsafe { operation.write(Box::into_raw(Box::new(started))) };
            Status::Ok
        }
        Err(status) => status,
    }
}

const SUM: i32 = 1;

/// Elements for each rank of the group.
///
/// # Safety
///
/// `group` must be null or a group that was not left.
pub(crate) unsafe fn for_each(group: *const Group, count: usize) -> usize {
    // SAFETY: as demanded.
    let world = unsafe { crate::group::inca_world_size(group) };
    count.saturating_mul(world as usize)
}

/// Nothing elsewhere.
///
/// # Safety
///
/// `group` must be null or a group that was not left.
unsafe fn at_root(group: *const Group, root: u32, output: (*mut c_void, usize)) -> (*mut c_void, usize) {
    // SAFETY: as demanded.
    if unsafe { crate::group::inca_rank(group) } == root { output } else { (NOWHERE, 0) }
}

/// Reduces `count` elements over all ranks. `output` may be `input`. Blocks.
///
/// # Safety
///
/// `group` must be null or a group that was not left; the memory of so many elements must be readable and writable as said, and nothing else may
/// use it meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn inca_allreduce(
    group: *const Group,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: i32,
    reduction: i32,
    timeout: f64,
) -> Status {
    let given = Given {
        group,
        collective: Collective::Allreduce,
        input: (input, count),
        output: (output, count),
        dtype,
        reduction,
        timeout,
    };
    // SAFETY: as demanded.
    unsafe { run(given) }
}

/// As `inca_allreduce`; returns at once. The operation must be freed.
///
/// # Safety
///
/// As `inca_allreduce`, until `inca_wait` has returned something else than INCA_STATUS_PENDING.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn inca_start_allreduce(
    group: *const Group,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: i32,
    reduction: i32,
    timeout: f64,
    operation: *mut *mut Operation,
) -> Status {
    let given = Given {
        group,
        collective: Collective::Allreduce,
        input: (input, count),
        output: (output, count),
        dtype,
        reduction,
        timeout,
    };
    // SAFETY: as demanded.
    unsafe { begin(given, operation) }
}

/// Reduces `count` elements over all ranks to the root; elsewhere `output` is not used. `output` may be `input`. Blocks.
///
/// # Safety
///
/// `group` must be null or a group that was not left; the memory of so many elements must be readable and writable as said, and nothing else may
/// use it meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn inca_reduce(
    group: *const Group,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: i32,
    reduction: i32,
    root: u32,
    timeout: f64,
) -> Status {
    let given = Given {
        group,
        collective: Collective::reduce_to(root),
        input: (input, count),
        // SAFETY: as demanded.
        output: unsafe { at_root(group, root, (output, count)) },
        dtype,
        reduction,
        timeout,
    };
    // SAFETY: as demanded.
    unsafe { run(given) }
}

/// As `inca_reduce`; returns at once. The operation must be freed.
///
/// # Safety
///
/// As `inca_reduce`, until `inca_wait` has returned something else than INCA_STATUS_PENDING.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn inca_start_reduce(
    group: *const Group,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: i32,
    reduction: i32,
    root: u32,
    timeout: f64,
    operation: *mut *mut Operation,
) -> Status {
    let given = Given {
        group,
        collective: Collective::reduce_to(root),
        input: (input, count),
        // SAFETY: as demanded.
        output: unsafe { at_root(group, root, (output, count)) },
        dtype,
        reduction,
        timeout,
    };
    // SAFETY: as demanded.
    unsafe { begin(given, operation) }
}

/// Copies the root's `count` elements to all ranks. Blocks.
///
/// # Safety
///
/// `group` must be null or a group that was not left; the memory of so many elements must be readable and writable as said, and nothing else may
/// use it meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn inca_broadcast(
    group: *const Group,
    data: *mut c_void,
    count: usize,
    dtype: i32,
    root: u32,
    timeout: f64,
) -> Status {
    let given = Given {
        group,
        collective: Collective::broadcast_from(root),
        input: (data, count),
        output: (data, count),
        dtype,
        reduction: SUM,
        timeout,
    };
    // SAFETY: as demanded.
    unsafe { run(given) }
}

/// As `inca_broadcast`; returns at once. The operation must be freed.
///
/// # Safety
///
/// As `inca_broadcast`, until `inca_wait` has returned something else than INCA_STATUS_PENDING.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn inca_start_broadcast(
    group: *const Group,
    data: *mut c_void,
    count: usize,
    dtype: i32,
    root: u32,
    timeout: f64,
    operation: *mut *mut Operation,
) -> Status {
    let given = Given {
        group,
        collective: Collective::broadcast_from(root),
        input: (data, count),
        output: (data, count),
        dtype,
        reduction: SUM,
        timeout,
    };
    // SAFETY: as demanded.
    unsafe { begin(given, operation) }
}

/// Puts all ranks' `count` elements one behind the other; `output` has `count` for each rank. Blocks.
///
/// # Safety
///
/// `group` must be null or a group that was not left; the memory of so many elements must be readable and writable as said, and nothing else may
/// use it meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn inca_allgather(
    group: *const Group,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: i32,
    timeout: f64,
) -> Status {
    let given = Given {
        group,
        collective: Collective::Allgather,
        input: (input, count),
        // SAFETY: as demanded.
        output: (output, unsafe { for_each(group, count) }),
        dtype,
        reduction: SUM,
        timeout,
    };
    // SAFETY: as demanded.
    unsafe { run(given) }
}

/// As `inca_allgather`; returns at once. The operation must be freed.
///
/// # Safety
///
/// As `inca_allgather`, until `inca_wait` has returned something else than INCA_STATUS_PENDING.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn inca_start_allgather(
    group: *const Group,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: i32,
    timeout: f64,
    operation: *mut *mut Operation,
) -> Status {
    let given = Given {
        group,
        collective: Collective::Allgather,
        input: (input, count),
        // SAFETY: as demanded.
        output: (output, unsafe { for_each(group, count) }),
        dtype,
        reduction: SUM,
        timeout,
    };
    // SAFETY: as demanded.
    unsafe { begin(given, operation) }
}

/// Reduces `count` elements for each rank; `output` has the `count` of this one. Blocks.
///
/// # Safety
///
/// `group` must be null or a group that was not left; the memory of so many elements must be readable and writable as said, and nothing else may
/// use it meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn inca_reduce_scatter(
    group: *const Group,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: i32,
    reduction: i32,
    timeout: f64,
) -> Status {
    let given = Given {
        group,
        collective: Collective::ReduceScatter,
        // SAFETY: as demanded.
        input: (input, unsafe { for_each(group, count) }),
        output: (output, count),
        dtype,
        reduction,
        timeout,
    };
    // SAFETY: as demanded.
    unsafe { run(given) }
}

/// As `inca_reduce_scatter`; returns at once. The operation must be freed.
///
/// # Safety
///
/// As `inca_reduce_scatter`, until `inca_wait` has returned something else than INCA_STATUS_PENDING.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn inca_start_reduce_scatter(
    group: *const Group,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: i32,
    reduction: i32,
    timeout: f64,
    operation: *mut *mut Operation,
) -> Status {
    let given = Given {
        group,
        collective: Collective::ReduceScatter,
        // SAFETY: as demanded.
        input: (input, unsafe { for_each(group, count) }),
        output: (output, count),
        dtype,
        reduction,
        timeout,
    };
    // SAFETY: as demanded.
    unsafe { begin(given, operation) }
}

/// Returns when all ranks have called it.
///
/// # Safety
///
/// `group` must be null or a group that was not left.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn inca_barrier(group: *const Group, timeout: f64) -> Status {
    let (input, output) = ((NOWHERE.cast_const(), 0), (NOWHERE, 0));
    let given =
        Given { group, collective: Collective::Barrier, input, output, dtype: SUM, reduction: SUM, timeout };
    // SAFETY: as demanded.
    unsafe { run(given) }
}
