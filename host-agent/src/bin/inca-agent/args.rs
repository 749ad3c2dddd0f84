//! The command line.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use inca_host_agent::communicator::{Fallback, JobToken, JoinOptions, OnFailure, OnFull};
use inca_host_agent::{Dtype, Format, ReduceOp, Scheme, SchemeError};

/// One rank of an inca job: joins through the controller, sums tensors inside the switches.
///
/// Start it once on every host of the job, with the same job, world and operation, and ranks 0 to world - 1.
#[derive(Debug, Parser)]
#[command(name = "inca-agent", version, after_long_help = EXIT_CODES)]
pub(crate) struct Args {
    /// What is logged to stderr: error, warn, info, debug, or a filter such as inca_host_agent=debug
    #[arg(long, global = true, env = "INCA_LOG", value_name = "FILTER")]
    pub(crate) log: Option<String>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  done, and right as far as it was checked
  1  results are wrong (--check)
  2  bad options
  3  could not join: controller, missing ranks, interface, MTU
  4  an operation failed: deadline, mismatch, overflow, closed
  5  a file could not be read or written

Example, two hosts:
  h1$ inca-agent allreduce --controller http://10.0.0.100:9559 --job demo --rank 0 --world 2 --count 1000000 --check
  h2$ inca-agent allreduce --controller http://10.0.0.100:9559 --job demo --rank 1 --world 2 --count 1000000 --check";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Reduces one tensor over all ranks: generated from a seed, or read from a file
    ///
    /// Without --input every rank generates its own tensor from --seed and its rank, so that any rank can compute what the result must
    /// be, bit for bit, and --check compares.
    #[command(after_long_help = EXIT_CODES)]
    Allreduce(AllreduceArgs),
    /// Measures a collective over a range of sizes, in the manner of nccl-tests
    ///
    /// Columns: size (bytes; of allgather, reduce-scatter and all-to-all of all ranks' parts), count (elements), type, redop, place (out of
    /// place, or in place), time (microseconds per operation), algbw (size / time), busbw (algbw x what a ring's links would carry of each byte:
    /// 2 (world - 1) / world of allreduce, (world - 1) / world of those with parts, 1 of others), #wrong (elements whose bits are not the
    /// reference model's). In a reduction tree every
    /// host link carries each byte once in each direction, so the ceiling of algbw is the link rate times the share of payload in a packet.
    #[command(after_long_help = EXIT_CODES)]
    Perf(PerfArgs),
    /// Sums tensors from standard input to standard output, for programs in any language
    ///
    /// A tensor is the number of its elements (64 bits, little-endian) followed by the elements (raw, little-endian); its sum is written in the
    /// same form before the next one is read. The end of the input leaves the job.
    #[command(after_long_help = EXIT_CODES)]
    Pipe(PipeArgs),
}

impl Command {
    /// Whether only errors are to be printed.
    pub(crate) fn is_quiet(&self) -> bool {
        match self {
            Self::Allreduce(args) => args.operation.quiet,
            Self::Perf(args) => args.operation.quiet,
            Self::Pipe(_) => false,
        }
    }
}

/// Whom to join.
#[derive(Debug, ClapArgs)]
pub(crate) struct JoinArgs {
    /// The controller's northbound address; several, separated by commas, where others stand by
    #[arg(long, env = "INCA_CONTROLLER", value_name = "http://ADDRESS:PORT")]
    pub(crate) controller: String,
    /// The bearer token, where the controller wants one
    #[arg(long, env = "INCA_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
    /// The authority of the controller's certificate (PEM), with https://
    #[arg(long, env = "INCA_CA", value_name = "FILE")]
    pub(crate) ca: Option<std::path::PathBuf>,
    /// This agent's certificate (PEM), where the controller wants one
    #[arg(long, env = "INCA_CERT", requires = "key", value_name = "FILE")]
    pub(crate) cert: Option<std::path::PathBuf>,
    /// Its key (PEM)
    #[arg(long, env = "INCA_KEY", requires = "cert", value_name = "FILE")]
    pub(crate) key: Option<std::path::PathBuf>,
    /// Name of the job
    #[arg(long, env = "INCA_JOB", value_name = "NAME")]
    pub(crate) job: String,
    /// Communicator group inside the job; empty: all of it
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    pub(crate) group: String,
    /// This rank, from 0
    #[arg(long, env = "INCA_RANK", value_name = "R")]
    pub(crate) rank: u32,
    /// Ranks of the group
    #[arg(long, env = "INCA_WORLD", value_name = "N")]
    pub(crate) world: u32,
    /// This host's data-plane address [default: that of --interface]
    #[arg(long, value_name = "IP")]
    pub(crate) host_address: Option<Ipv4Addr>,
    /// The data-plane interface [default: that of --host-address, or the only one that is not the loopback]
    #[arg(long, value_name = "NAME")]
    pub(crate) interface: Option<String>,
    /// Words of 2048 bits per chunk, 1 to 32, the same on all ranks: the block length of block formats, and what must fit into the MTU (5 words make
    /// 1348-byte packets, 32 words 8260)
    #[arg(long, default_value_t = 5, value_name = "WORDS")]
    pub(crate) chunk_words: u8,
    /// Seconds to wait for the controller, the other ranks and the trees
    #[arg(long, default_value = "60", value_parser = seconds, value_name = "SECONDS")]
    pub(crate) join_timeout: Duration,
    /// If there is no reduction tree for the job (no room in a switch, no path, a switch without the program): fail, or sum in a ring
    /// of the hosts over TCP, and say so; the same on all ranks
    #[arg(long, value_enum, default_value_t = FallbackArg::Error)]
    pub(crate) fallback: FallbackArg,
    /// The job's token: what `inca submit` printed, or a secret of 16 to 256 bytes that all ranks of the job have and nobody else
    #[arg(long, env = "INCA_JOB_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    pub(crate) job_token: Option<String>,
    /// If the switches have no room for the job: wait for its turn, for so many seconds, or as long as it takes; without this it is refused; the
    /// same on all ranks
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "0")]
    pub(crate) queue: Option<u32>,
    /// What becomes of the group when a rank dies, the same on all ranks
    #[arg(long, value_enum, default_value_t = OnFailureArg::Abort)]
    pub(crate) on_failure: OnFailureArg,
    /// Slots in flight at first; a loss halves them
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=4096), value_name = "SLOTS")]
    pub(crate) window: u16,
    /// Slots in flight at most; the trees' slots bound it too
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=4096), value_name = "SLOTS")]
    pub(crate) max_window: u16,
}

/// What to reduce.
#[derive(Debug, ClapArgs)]
pub(crate) struct OperationArgs {
    #[command(flatten)]
    pub(crate) scheme: SchemeArgs,
    /// Seed of the generated tensors, the same on all ranks
    #[arg(long, default_value_t = 1, value_name = "SEED")]
    pub(crate) seed: u64,
    /// Seconds after which an operation fails
    #[arg(long, default_value = "60", value_parser = seconds, value_name = "SECONDS")]
    pub(crate) deadline: Duration,
    /// Print JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,
    /// Print nothing but errors
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct AllreduceArgs {
    #[command(flatten)]
    pub(crate) join: JoinArgs,
    #[command(flatten)]
    pub(crate) operation: OperationArgs,
    /// Elements of the generated tensor
    #[arg(long, value_parser = size, conflicts_with_all = ["bytes", "input"], value_name = "N")]
    pub(crate) count: Option<u64>,
    /// Bytes of the generated tensor; K, M, G are powers of 1024
    #[arg(long, value_parser = size, conflicts_with = "input", value_name = "BYTES")]
    pub(crate) bytes: Option<u64>,
    /// Read the tensor from this file: a NumPy array if it ends in .npy, otherwise raw little-endian elements
    #[arg(long, visible_alias = "in", value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// Write the result to this file: of the input's shape if it ends in .npy, otherwise raw little-endian elements
    #[arg(long, visible_alias = "out", value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Compare the result of a generated tensor with the reference model
    #[arg(long, value_enum, num_args = 0..=1, default_value_t = CheckArg::None, default_missing_value = "full")]
    pub(crate) check: CheckArg,
    /// Repeat the operation this often
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), value_name = "TIMES")]
    pub(crate) repeat: u32,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct PerfArgs {
    #[command(flatten)]
    pub(crate) join: JoinArgs,
    #[command(flatten)]
    pub(crate) operation: OperationArgs,
    /// Smallest size in bytes; K, M, G are powers of 1024
    #[arg(short = 'b', long, default_value = "1K", value_parser = size, value_name = "BYTES")]
    pub(crate) min_bytes: u64,
    /// Largest size in bytes
    #[arg(short = 'e', long, default_value = "4M", value_parser = size, value_name = "BYTES")]
    pub(crate) max_bytes: u64,
    /// Factor from one size to the next
    #[arg(short = 'f', long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(2..), value_name = "FACTOR")]
    pub(crate) factor: u64,
    /// Measured operations per size
    #[arg(short = 'n', long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..), value_name = "TIMES")]
    pub(crate) iterations: u32,
    /// Operations before measuring, per size
    #[arg(short = 'w', long, default_value_t = 5, value_name = "TIMES")]
    pub(crate) warmup: u32,
    /// What is measured
    #[arg(short = 'c', long, value_enum, default_value_t = CollectiveArg::Allreduce)]
    pub(crate) collective: CollectiveArg,
    /// The root of reduce and broadcast
    #[arg(short = 'r', long, default_value_t = 0, value_name = "RANK")]
    pub(crate) root: u32,
    /// Measure in place too, in rows of its own (broadcast is in place always)
    #[arg(long)]
    pub(crate) in_place: bool,
    /// Compare each size's last result with the reference model: all elements, every 16th chunk, or none
    #[arg(long, value_enum, default_value_t = CheckArg::Full)]
    pub(crate) check: CheckArg,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct PipeArgs {
    #[command(flatten)]
    pub(crate) join: JoinArgs,
    #[command(flatten)]
    pub(crate) scheme: SchemeArgs,
    /// Keep what quantisation takes from each element and add it to the next tensor of the same length (f32 in a block format)
    #[arg(long)]
    pub(crate) error_feedback: bool,
    /// Seed of what the protocol leaves to chance, such as the moment of a retransmission
    #[arg(long, default_value_t = 1, value_name = "SEED")]
    pub(crate) seed: u64,
    /// Seconds after which an operation fails
    #[arg(long, default_value = "60", value_parser = seconds, value_name = "SECONDS")]
    pub(crate) deadline: Duration,
}

/// Element type, reduction and number format: the same on all ranks.
#[derive(Debug, Clone, Copy, ClapArgs)]
pub(crate) struct SchemeArgs {
    /// Element type: f32, f16, bf16, f8e4m3, f8e5m2, i8, i16, i32, i64, u8, or i4 (two in a byte)
    #[arg(short, long, default_value = "f32", value_name = "TYPE")]
    pub(crate) dtype: Dtype,
    /// Reduction: sum, average (avg), min or max; averages of integers are rounded to nearest, ties to even
    #[arg(short, long, default_value = "sum", value_name = "OP")]
    pub(crate) op: ReduceOp,
    /// Number format on the wire: bfp8, bfp16, bfp32 or exact for floats, i8, i16, i32 or i64 for integers, max8 to max64 for min
    /// and max [default: bfp16 for f32, f16 and bf16, bfp8 for f8, the narrowest that fits for integers]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<Format>,
}

impl SchemeArgs {
    /// The format that is asked for, or the default.
    pub(crate) fn format(&self) -> Result<Format, SchemeError> {
        self.format.map_or_else(|| Scheme::default_format(self.dtype, self.op), Ok)
    }
}

/// What `perf` measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CollectiveArg {
    /// All ranks get the reduction
    Allreduce,
    /// The root gets it
    Reduce,
    /// All get the root's tensor
    Broadcast,
    /// All get all ranks' parts
    Allgather,
    /// Each gets its part of the reduction
    ReduceScatter,
    /// Each gets its part of every rank's, from host to host
    Alltoall,
    /// Each sends to the next rank, from host to host
    Sendrecv,
    /// Nobody goes on before all are there; sizes do not matter
    Barrier,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FallbackArg {
    /// Fail
    Error,
    /// A ring of the hosts over TCP
    Ring,
}

impl From<FallbackArg> for Fallback {
    fn from(fallback: FallbackArg) -> Self {
        match fallback {
            FallbackArg::Error => Self::Error,
            FallbackArg::Ring => Self::Ring,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CheckArg {
    /// Every element
    Full,
    /// Every 16th chunk, and the last
    Sample,
    /// Nothing
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnFailureArg {
    /// It ends for all ranks, with an error that names the dead one
    Abort,
    /// The others go on without it; the report says what the results hold
    Shrink,
}

impl JoinArgs {
    /// The library's form of these options.
    pub(crate) fn options(&self, scheme: &SchemeArgs, seed: u64) -> Result<JoinOptions, SchemeError> {
        let mut options = JoinOptions::new(&self.controller, &self.job, self.rank, self.world);
        options.access.token.clone_from(&self.token);
        options.access.ca.clone_from(&self.ca);
        options.access.identity = self.cert.clone().zip(self.key.clone());
        options.group.clone_from(&self.group);
        options.carry(scheme.dtype, scheme.op, scheme.format)?;
        options.chunk_words = self.chunk_words;
        options.host_address = self.host_address;
        options.interface.clone_from(&self.interface);
        options.timeout = self.join_timeout;
        options.fallback = self.fallback.into();
        options.job_token = JobToken::new(self.job_token.as_deref().unwrap_or_default());
        options.on_full = match self.queue {
            None => OnFull::Refuse,
            Some(0) => OnFull::Queue(None),
            Some(seconds) => OnFull::Queue(Some(Duration::from_secs(seconds.into()))),
        };
        options.on_failure = match self.on_failure {
            OnFailureArg::Abort => OnFailure::Abort,
            OnFailureArg::Shrink => OnFailure::Shrink,
        };
        options.tuning.window.start = self.window.into();
        options.tuning.window.max = self.max_window.into();
        options.tuning.seed = seed;
        Ok(options)
    }
}

/// Parses sizes such as 4096, 64K, 16M, 1G.
fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 1,
        "K" | "KB" | "KIB" => 1 << 10,
        "M" | "MB" | "MIB" => 1 << 20,
        "G" | "GB" | "GIB" => 1 << 30,
        unit => return Err(format!("unit {unit:?}: must be K, M or G")),
    };
    let number: u64 =
        digits.parse().map_err(|_| format!("{digits:?} is no number; give one like 4096, 64K or 16M"))?;
    number.checked_mul(unit).ok_or_else(|| "too large".to_owned())
}

/// A year: the longest that anything waits.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// Parses seconds, fractions allowed.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("{text:?} is no number of seconds"))?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if !duration.is_zero() && duration <= LONGEST => Ok(duration),
        _ => Err(format!("{text} seconds: must be more than 0 and at most {}", LONGEST.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn sizes_take_binary_units() {
        assert_eq!(size("4096"), Ok(4096));
        assert_eq!(size("64K"), Ok(64 << 10));
        assert_eq!(size("16m"), Ok(16 << 20));
        assert_eq!(size("1GiB"), Ok(1 << 30));
        for bad in ["", "K", "-1", "1.5M", "3X", "99999999999G"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn seconds_take_fractions_and_refuse_nonsense() {
        assert_eq!(seconds("0.25"), Ok(Duration::from_millis(250)));
        for bad in ["", "0", "-1", "inf", "NaN", "soon", "1e30"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
