//! A look from a host: its data-plane interfaces, the paths to other hosts, and what emulations left behind. By the programs that an
//! operator would use: `ethtool`, `ping`, `ip`.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Output};

use super::{CliError, Finding};

/// What `ethtool -k` calls them, and the short name that switches each off.
const OFFLOADS: [(&str, &str); 6] = [
    ("tx-checksumming", "tx"),
    ("rx-checksumming", "rx"),
    ("tcp-segmentation-offload", "tso"),
    ("generic-segmentation-offload", "gso"),
    ("generic-receive-offload", "gro"),
    ("large-receive-offload", "lro"),
];
/// Hosts that are asked at once.
const AT_ONCE: usize = 16;
/// Headers of IPv4 and ICMP, and of IPv4, UDP and the reduction packet.
const PING_HEADERS: u32 = 28;
const CHUNK_HEADERS: u32 = 68;
const WORD: u32 = 256;
/// Every IPv4 path carries so much.
const LEAST_MTU: u32 = 68;
/// Of jumbo frames, Ethernet, and tunnels over it.
const USUAL_MTUS: [u32; 4] = [9000, 1500, 1450, 1280];
const NAMESPACES: &str = "/run/netns";

type Seen = (Vec<Finding>, Vec<String>);

/// Findings, and what was looked at.
pub(super) fn examine(interfaces: &[String], hosts: &[String]) -> Result<Seen, CliError> {
    let (mut findings, mut looked) = (Vec::new(), Vec::new());
    for interface in interfaces {
        findings.extend(interface_findings(interface)?);
        looked.push(format!("interface {interface}"));
    }
    for part in hosts.chunks(AT_ONCE) {
        let found: Vec<_> = std::thread::scope(|scope| {
            let asked: Vec<_> = part.iter().map(|host| scope.spawn(move || path(host, interfaces))).collect();
            asked.into_iter().map(|asked| asked.join().unwrap_or_else(|_| Err(gone()))).collect()
        });
        for finding in found {
            findings.extend(finding?);
        }
    }
    if !hosts.is_empty() {
        looked.push(format!("paths to {} hosts", hosts.len()));
    }
    findings.extend(stale(Path::new(NAMESPACES), Path::new("/proc"))?);
    looked.push("namespaces".to_owned());
    Ok((findings, looked))
}

fn gone() -> CliError {
    io::Error::other("a thread has ended").into()
}

/// Output of a program of the system.
fn run(program: &str, arguments: &[&str]) -> Result<Output, CliError> {
    let output = Command::new(program).args(arguments).env("LC_ALL", "C").output();
    output.map_err(|error| CliError::Option(format!("{program}: {error}; it is needed for this look")))
}

/// Whether an interface is fit for reduction packets: there, up, offloads off, IPv6 off.
fn interface_findings(interface: &str) -> Result<Vec<Finding>, CliError> {
    let output = run("ethtool", &["-k", interface])?;
    if !output.status.success() {
        // A finding is one line; ethtool says it in two.
        let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
        let what = format!("interface {interface}: {said}");
        return Ok(vec![Finding::new(what, "ip link lists the interfaces there are")]);
    }
    let mut findings = Vec::new();
    let on = offloads(&String::from_utf8_lossy(&output.stdout));
    if !on.is_empty() {
        let off: Vec<_> = on.iter().map(|short| format!("{short} off")).collect();
        findings.push(Finding::new(
            format!("interface {interface}: offloads are on ({}): switches see merged frames, or unfilled checksums", on.join(" ")),
            format!("ethtool -K {interface} {}", off.join(" ")),
        ));
    }
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    if read(&format!("/sys/class/net/{interface}/operstate")) == "down" {
        findings.push(Finding::new(
            format!("interface {interface} is down"),
            format!("ip link set {interface} up"),
        ));
    }
    if read(&format!("/proc/sys/net/ipv6/conf/{interface}/disable_ipv6")) == "0" {
        findings.push(Finding::new(
            format!("interface {interface}: IPv6 is on, router solicitations reach switches"),
            format!("sysctl -w net.ipv6.conf.{interface}.disable_ipv6=1"),
        ));
    }
    Ok(findings)
}

/// The harmful ones that are on, of what `ethtool -k` prints. Those that can't be changed are left out.
fn offloads(text: &str) -> Vec<&'static str> {
    let is_on = |name: &str| {
        text.lines().any(|line| {
            let state = line.trim().strip_prefix(name).and_then(|rest| rest.strip_prefix(": "));
            state.is_some_and(|state| state.starts_with("on") && !state.contains("[fixed]"))
        })
    };
    OFFLOADS.iter().filter(|(name, _)| is_on(name)).map(|(_, short)| *short).collect()
}

/// Whether a host is reached, and with packets as large as its interface takes.
fn path(host: &str, interfaces: &[String]) -> Result<Option<Finding>, CliError> {
    if host.parse::<std::net::Ipv4Addr>().is_err() {
        return Err(CliError::Option(format!("--host {host}: must be an IPv4 address, or all")));
    }
    let interface = match interfaces {
        [only] => only.clone(),
        _ => match route(host)? {
            Some(interface) => interface,
            None => {
                let remedy = "give the data-plane interface an address of the same subnet, or a route";
                return Ok(Some(Finding::new(format!("host {host}: there is no route to it"), remedy)));
            }
        },
    };
    // The first ones may be lost while the controller looks for the host.
    if !ping(host, &interface, 56, 1)? && !ping(host, &interface, 56, 5)? {
        let what = format!("host {host} is not reached by {interface}");
        let remedy = "is it up, and does the controller know it (inca hosts)? Are all links on the way up (inca topo)?";
        return Ok(Some(Finding::new(what, remedy)));
    }
    let mtu = std::fs::read_to_string(format!("/sys/class/net/{interface}/mtu"));
    let mtu: u32 = mtu.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(1500);
    // The loopback's is larger than any packet.
    let mtu = mtu.min(65_535);
    if ping(host, &interface, mtu.saturating_sub(PING_HEADERS), 2)? {
        return Ok(None);
    }
    let fits = largest(mtu, |size| ping(host, &interface, size - PING_HEADERS, 2))?;
    Ok(Some(too_narrow(host, &interface, mtu, fits)))
}

/// The largest packet that gets through, below a size that does not: each question that fails takes a second, so the usual ones first.
fn largest<E>(mtu: u32, mut passes: impl FnMut(u32) -> Result<bool, E>) -> Result<u32, E> {
    let (mut fits, mut too_large) = (LEAST_MTU, mtu);
    for usual in USUAL_MTUS.into_iter().filter(|usual| *usual < mtu) {
        if passes(usual)? {
            fits = usual;
            if usual + 1 < too_large && !passes(usual + 1)? {
                too_large = usual + 1;
            }
            break;
        }
        too_large = usual;
    }
    while too_large - fits > 1 {
        let middle = fits + (too_large - fits) / 2;
        match passes(middle)? {
            true => fits = middle,
            false => too_large = middle,
        }
    }
    Ok(fits)
}

fn too_narrow(host: &str, interface: &str, mtu: u32, fits: u32) -> Finding {
    let words = |bytes: u32| (bytes.saturating_sub(CHUNK_HEADERS) / WORD).min(32);
    Finding::new(
        format!("the path to host {host} carries packets of {fits} bytes, {interface} has an MTU of {mtu}"),
        format!(
            "give all interfaces on the path the same MTU (ip link set IF mtu {mtu}); until then chunks of at most {} words get through, \
             not {}",
            words(fits),
            words(mtu)
        ),
    )
}

/// The interface that packets to a host leave by.
fn route(host: &str) -> Result<Option<String>, CliError> {
    let output = run("ip", &["-o", "route", "get", host])?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut words = text.split_whitespace().skip_while(|word| *word != "dev");
    Ok(words.nth(1).filter(|_| output.status.success()).map(str::to_owned))
}

/// Whether one of so many packets that must not be fragmented is answered.
fn ping(host: &str, interface: &str, payload: u32, tries: u32) -> Result<bool, CliError> {
    let (payload, tries) = (payload.to_string(), tries.to_string());
    let arguments = [
        "-n", "-q", "-M", "do", "-I", interface, "-s", &payload, "-c", &tries, "-i", "0.2", "-W", "0.7", host,
    ];
    Ok(received(&String::from_utf8_lossy(&run("ping", &arguments)?.stdout)) > 0)
}

/// Answers, of what `ping -q` prints.
fn received(text: &str) -> u32 {
    let line = text.lines().find(|line| line.contains(" transmitted"));
    let part = line.and_then(|line| line.split(", ").find(|part| part.contains(" received")));
    part.and_then(|part| part.split(' ').next()?.parse().ok()).unwrap_or(0)
}

/// Named network namespaces that no process is in: what an emulation of somebody's own left behind. Ours have no names, and end with
/// their processes.
fn stale(names: &Path, processes: &Path) -> Result<Vec<Finding>, CliError> {
    let Ok(entries) = std::fs::read_dir(names) else { return Ok(Vec::new()) };
    let inhabited: BTreeSet<u64> = std::fs::read_dir(processes)?
        .filter_map(|entry| std::fs::metadata(entry.ok()?.path().join("ns/net")).ok())
        .map(|namespace| namespace.ino())
        .collect();
    let mut empty: Vec<String> = entries
        .filter_map(Result::ok)
        .filter(|entry| std::fs::metadata(entry.path()).is_ok_and(|found| !inhabited.contains(&found.ino())))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    empty.sort();
    let finding = |name: String| {
        let remedy = format!("ip netns del {name}, if nobody needs it: its interfaces go with it");
        Finding::new(format!("network namespace {name} has no process"), remedy)
    };
    Ok(empty.into_iter().map(finding).collect())
}

#[cfg(test)]
#[path = "host_tests.rs"]
mod tests;
