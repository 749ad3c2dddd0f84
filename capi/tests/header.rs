//! The committed header is what the crate says, and a C compiler takes it and the example.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn the_header_is_fresh() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).expect("configuration");
    let bindings = ["types", "status", "group", "operation", "calls", "peers"]
        .iter()
        .fold(cbindgen::Builder::new().with_config(config), |builder, module| {
            builder.with_src(folder.join(format!("src/{module}.rs")))
        })
        .generate()
        .expect("bindings");
    let mut fresh = Vec::new();
    bindings.write(&mut fresh);
    let path = root().join("include/inca.h");
    if std::env::var_os("INCA_WRITE_HEADER").is_some() {
        std::fs::write(&path, &fresh).expect("written");
    }
    let committed = std::fs::read(&path).unwrap_or_default();
    assert!(committed == fresh, "include/inca.h is stale: INCA_WRITE_HEADER=1 cargo test -p inca-capi");
}

#[test]
fn a_c_compiler_takes_header_and_example_without_a_warning() {
    let root = root();
    for standard in ["c99", "c17"] {
        let compiled = Command::new("cc")
            .args(["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"])
            .arg(format!("-std={standard}"))
            .arg("-I")
            .arg(root.join("include"))
            .arg(root.join("capi/examples/sum.c"))
            .output()
            .expect("cc runs");
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    }
}

#[test]
fn what_makes_no_sense_has_a_status_and_words() {
    use std::ffi::CStr;
    use std::ptr::{null, null_mut};

    let words = || {
        // SAFETY: valid until this thread's next call.
        unsafe { CStr::from_ptr(inca::inca_last_error()) }.to_str().expect("text").to_owned()
    };
    // SAFETY: null is allowed everywhere.
    unsafe {
        assert_eq!(inca::inca_join(null(), null_mut()), inca::Status::InvalidArgument);
        assert!(words().contains("options is null"), "{}", words());
        assert_eq!(inca::inca_barrier(null(), 1.0), inca::Status::InvalidArgument);
        assert_eq!(inca::inca_wait(null(), 1.0), inca::Status::InvalidArgument);
        assert_eq!(inca::inca_leave(null_mut()), inca::Status::Ok);
        inca::inca_free(null_mut());
        inca::inca_options_init(null_mut());
        assert_eq!((inca::inca_rank(null()), inca::inca_world_size(null())), (0, 0));
    }
    let mut options = std::mem::MaybeUninit::uninit();
    // SAFETY: memory for one; it is initialised then.
    let mut options = unsafe {
        inca::inca_options_init(options.as_mut_ptr());
        options.assume_init()
    };
    let mut group = null_mut();
    let mut refused = |options: &inca::Options| {
        // SAFETY: its strings are null or end with zeros.
        let status = unsafe { inca::inca_join(options, &raw mut group) };
        assert_eq!(status, inca::Status::InvalidArgument);
        words()
    };
    assert!(refused(&options).contains("controller is null"));
    options.controller = c"192.0.2.1".as_ptr();
    options.job = c"job".as_ptr();
    options.dtype = 77;
    assert!(refused(&options).contains("77 is no inca_type"));
    options.dtype = 2;
    options.format = c"bfp16".as_ptr();
    assert!(refused(&options).contains("bfp16"));
    (options.format, options.timeout) = (null(), -1.0);
    assert!(refused(&options).contains("timeout -1"));
    (options.timeout, options.rank) = (1.0, 3);
    assert!(refused(&options).contains("rank 3"));
}
