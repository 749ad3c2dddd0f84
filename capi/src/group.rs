//! Joining, leaving, groups within groups.

use std::ffi::{CStr, c_char};
use std::time::Duration;

use inca_host_agent::communicator::{Fallback, JobToken, OnFailure, OnFull};
use inca_host_agent::{Communicator, Format, JoinOptions};

use crate::status::{Status, invalid, of_join, of_leave, of_split};
use crate::types::{dtype, reduction};

/// One rank's membership in a group.
pub struct Group(pub(crate) Communicator);

/// What to join, and as whom. `inca_options_init` fills in what has a default; strings must live until `inca_join` returns.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The controller's address, as http://192.0.2.1:9559; several, separated by commas.
    pub controller: *const c_char,
    /// Name of the job.
    pub job: *const c_char,
    /// Group inside the job; null: all of it.
    pub group: *const c_char,
    /// This rank, from 0.
    pub rank: u32,
    /// Ranks of the group.
    pub world: u32,
    /// What is reduced, an `inca_type`, and how, an `inca_reduction`: they choose the number format, unless `format` names one.
    pub dtype: i32,
    /// See `dtype`.
    pub reduction: i32,
    /// Number format on the wire, as bfp16; null: the default.
    pub format: *const c_char,
    /// Words of 2048 bits per packet, 1 to 32.
    pub chunk_words: u8,
    /// The data-plane interface; null: the only one there is.
    pub interface_name: *const c_char,
    /// Not 0: the group goes on without ranks that die.
    pub shrink: i32,
    /// Not 0: without a reduction tree the hosts sum in a ring over TCP.
    pub ring: i32,
    /// Seconds to wait for the controller, the other ranks and the trees.
    pub timeout: f64,
    /// The token that the controller wants; null: none.
    pub token: *const c_char,
    /// File of the certificates (PEM) that vouch for a controller at https://; null: none.
    pub ca: *const c_char,
    /// The job's token: what its submission was answered with, or a secret of 16 to 256 bytes of its ranks; null: none.
    pub job_token: *const c_char,
    /// Not 0: where the switches have no room, the group waits for its turn instead of being refused.
    pub queue: i32,
}

/// Fills in defaults: f32 sums in bfp16, 5 words, a minute to join.
///
/// # Safety
///
/// `options` must be null or point to memory for one `inca_options`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn inca_options_init(options: *mut Options) {
    let defaults = Options {
        controller: std::ptr::null(),
        job: std::ptr::null(),
        group: std::ptr::null(),
        rank: 0,
        world: 1,
        dtype: 1,
        reduction: 1,
        format: std::ptr::null(),
        chunk_words: 5,
        interface_name: std::ptr::null(),
        shrink: 0,
        ring: 0,
        timeout: 60.0,
        token: std::ptr::null(),
        ca: std::ptr::null(),
        job_token: std::ptr::null(),
        queue: 0,
    };
    if !options.is_null() {
        // SAFETY: as demanded.
        unsafe { options.write(defaults) }
    }
}

/// Joins a job: waits until all ranks are there and their trees are installed.
///
/// # Safety
///
/// `options` must be null or point to options whose strings are null or end with a zero byte; `group` null or to memory for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn inca_join(options: *const Options, group: *mut *mut Group) -> Status {
    // SAFETY: as demanded.
    let Some(given) = (unsafe { options.as_ref() }) else { return invalid("inca_join: options is null") };
    if group.is_null() {
        return invalid("inca_join: group is null");
    }
    // SAFETY: as demanded.
    let options = match unsafe { read(given) } {
        Ok(options) => options,
        Err(what) => return invalid(format!("inca_join: {what}")),
    };
    match Communicator::join(options) {
        Ok(joined) => {
            // SAFETY: as demanded; it is not null.
            unsafe { group.write(Box::into_raw(Box::new(Group(joined)))) };
            Status::Ok
        }
        Err(error) => of_join(&error),
    }
}

/// # Safety
///
/// Strings must be null or end with a zero byte.
unsafe fn read(given: &Options) -> Result<JoinOptions, String> {
    // SAFETY: as demanded.
    let text = |what: &str, pointer: *const c_char| match unsafe { pointer.as_ref() } {
        None => Ok(None),
        // SAFETY: as demanded; it is not null.
        Some(_) => match unsafe { CStr::from_ptr(pointer) }.to_str() {
            Ok(text) => Ok(Some(text.to_owned())),
            Err(_) => Err(format!("{what} is no UTF-8")),
        },
    };
    let needed = |what: &str, pointer| text(what, pointer)?.ok_or_else(|| format!("{what} is null"));
    let (controller, job) = (needed("controller", given.controller)?, needed("job", given.job)?);
    let mut options = JoinOptions::new(controller, job, given.rank, given.world);
    options.group = text("group", given.group)?.unwrap_or_default();
    let dtype = dtype(given.dtype).ok_or_else(|| format!("dtype {} is no inca_type", given.dtype))?;
    let op = reduction(given.reduction)
        .ok_or_else(|| format!("reduction {} is no inca_reduction", given.reduction))?;
    let format = text("format", given.format)?.map(|name| name.parse::<Format>()).transpose();
    let format = format.map_err(|error| error.to_string())?;
    options.carry(dtype, op, format).map_err(|error| error.to_string())?;
    options.chunk_words = given.chunk_words;
    options.interface = text("interface_name", given.interface_name)?;
    options.on_failure = if given.shrink == 0 { OnFailure::Abort } else { OnFailure::Shrink };
    options.fallback = if given.ring == 0 { Fallback::Error } else { Fallback::Ring };
    options.timeout =
        seconds(given.timeout).ok_or_else(|| format!("timeout {}: must be 0 or more", given.timeout))?;
    options.access.token = text("token", given.token)?;
    options.access.ca = text("ca", given.ca)?.map(Into::into);
    options.job_token = JobToken::new(text("job_token", given.job_token)?.unwrap_or_default());
    options.on_full = if given.queue == 0 { OnFull::Refuse } else { OnFull::Queue(None) };
    Ok(options)
}

/// Seconds as a duration; infinity is no limit.
pub(crate) fn seconds(seconds: f64) -> Option<Duration> {
    let is_time = !seconds.is_nan() && seconds >= 0.0;
    is_time.then(|| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

/// Leaves the job; the group is gone afterwards, whatever is returned. Calls under way fail, here and at the other ranks; operations that
/// were started must be freed all the same. Null is nothing.
///
/// # Safety
///
/// `group` must be null or come from this library and not have been left; no other thread may use it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn inca_leave(group: *mut Group) -> Status {
    if group.is_null() {
        return Status::Ok;
    }
    // SAFETY: as demanded, it is a box of ours.
    match unsafe { Box::from_raw(group) }.0.leave() {
        Ok(()) => Status::Ok,
        Err(error) => of_leave(&error),
    }
}

/// This rank; 0 of a null group.
///
/// # Safety
///
/// `group` must be null or a group that was not left.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn inca_rank(group: *const Group) -> u32 {
    // SAFETY: as demanded.
    unsafe { group.as_ref() }.map_or(0, |group| group.0.rank())
}

/// Ranks of the group, now; 0 of a null group.
///
/// # Safety
///
/// `group` must be null or a group that was not left.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn inca_world_size(group: *const Group) -> u32 {
    // SAFETY: as demanded.
    unsafe { group.as_ref() }.map_or(0, |group| group.0.world_size())
}

/// Splits the group: ranks of one color form a new one, ordered by key, then by rank. A negative color: this rank joins none, and gets null.
/// A collective: all ranks must call it.
///
/// # Safety
///
/// `group` must be null or a group that was not left; `part` null or point to memory for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn inca_split(
    group: *const Group,
    color: i32,
    key: i32,
    timeout: f64,
    part: *mut *mut Group,
) -> Status {
    // SAFETY: as demanded.
    let Some(group) = (unsafe { group.as_ref() }) else { return invalid("inca_split: group is null") };
    let Some(deadline) = seconds(timeout) else { return invalid("inca_split: timeout must be 0 or more") };
    if part.is_null() {
        return invalid("inca_split: part is null");
    }
    match group.0.split(u32::try_from(color).ok(), key, deadline) {
        Ok(made) => {
            let made = made.map_or(std::ptr::null_mut(), |group| Box::into_raw(Box::new(Group(group))));
            // SAFETY: as demanded; it is not null.
            unsafe { part.write(made) };
            Status::Ok
        }
        Err(error) => of_split(&error),
    }
}
