//! From host to host.

use std::ffi::c_void;
use std::time::Duration;

use inca_host_agent::{CollectiveError, Communicator, Dtype, TensorMut, TensorRef};

use crate::calls::{NOWHERE, check, for_each};
use crate::group::{Group, seconds};
use crate::status::{Status, invalid, of_collective};
use crate::types::dtype;

/// Runs a call on what was handed in, if that makes sense.
///
/// # Safety
///
/// `group` must be null or a group that was not left.
unsafe fn run(
    group: *const Group,
    code: i32,
    timeout: f64,
    call: impl FnOnce(&Communicator, Dtype, Duration) -> Result<Result<(), CollectiveError>, Status>,
) -> Status {
    // SAFETY: as demanded.
    let Some(group) = (unsafe { group.as_ref() }) else { return invalid("group is null") };
    let Some(dtype) = dtype(code) else { return invalid(format!("{code} is no inca_type")) };
    let Some(deadline) = seconds(timeout) else { return invalid("timeout must be 0 or more") };
    match call(&group.0, dtype, deadline) {
        Ok(Ok(())) => Status::Ok,
        Ok(Err(error)) => of_collective(&error),
        Err(status) => status,
    }
}

/// # Safety
///
/// `data` must be readable for `count` elements, if that is not 0, for as long as the result is used.
unsafe fn read<'a>(data: *const c_void, count: usize, dtype: Dtype) -> Result<TensorRef<'a>, Status> {
    check("memory", (data, count), dtype)?;
    let data = if count == 0 { NOWHERE.cast_const() } else { data };
    // SAFETY: as demanded; it is neither null nor misaligned.
    Ok(unsafe { TensorRef::from_raw(data.cast(), count, dtype) })
}

/// # Safety
///
/// As [`read`], and writable, by nothing else.
unsafe fn write<'a>(data: *mut c_void, count: usize, dtype: Dtype) -> Result<TensorMut<'a>, Status> {
    check("memory", (data.cast_const(), count), dtype)?;
    let data = if count == 0 { NOWHERE } else { data };
    // SAFETY: as demanded; it is neither null nor misaligned.
    Ok(unsafe { TensorMut::from_raw(data.cast(), count, dtype) })
}

/// Exchanges parts: input and output have `count` elements for each rank; part j of rank i's input becomes part i of rank j's output. Blocks; no
/// other operation of the group may be started meanwhile. The two must be apart.
///
/// # Safety
///
/// `group` must be null or a group that was not left; the memory of so many elements must be readable or writable as said, and nothing else may
/// use it meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn inca_alltoall(
    group: *const Group,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: i32,
    timeout: f64,
) -> Status {
    // SAFETY: as demanded.
    let count = unsafe { for_each(group, count) };
    // SAFETY: as demanded.
    unsafe {
        run(group, dtype, timeout, |group, dtype, deadline| {
            Ok(group.alltoall(read(input, count, dtype)?, write(output, count, dtype)?, deadline))
        })
    }
}

/// Tells all ranks where this one listens. A collective: needed once, before anyone sends or receives.
///
/// # Safety
///
/// `group` must be null or a group that was not left.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn inca_connect_peers(group: *const Group, timeout: f64) -> Status {
    // SAFETY: as demanded.
    unsafe { run(group, 1, timeout, |group, _, deadline| Ok(group.connect_peers(deadline))) }
}

/// Sends `count` elements to another rank, which must receive them with the same tag. Returns when they are on their way.
///
/// # Safety
///
/// `group` must be null or a group that was not left; the memory of so many elements must be readable or writable as said, and nothing else may
/// use it meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn inca_send(
    group: *const Group,
    data: *const c_void,
    count: usize,
    dtype: i32,
    to: u32,
    tag: u32,
    timeout: f64,
) -> Status {
    // SAFETY: as demanded.
    unsafe {
        run(group, dtype, timeout, |group, dtype, deadline| {
            Ok(group.send(read(data, count, dtype)?, to, tag, deadline))
        })
    }
}

/// Receives `count` elements from another rank. Blocks.
///
/// # Safety
///
/// `group` must be null or a group that was not left; the memory of so many elements must be readable or writable as said, and nothing else may
/// use it meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn inca_recv(
    group: *const Group,
    data: *mut c_void,
    count: usize,
    dtype: i32,
    from: u32,
    tag: u32,
    timeout: f64,
) -> Status {
    // SAFETY: as demanded.
    unsafe {
        run(group, dtype, timeout, |group, dtype, deadline| {
            Ok(group.recv(write(data, count, dtype)?, from, tag, deadline))
        })
    }
}
