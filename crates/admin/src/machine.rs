//! `GET /api/machine-info`: what this server runs on.
//!
//! In: what the kernel and the system say of themselves. Out: one object with KumoMTA's fields; what the system does not say is
//! null, or empty where KumoMTA has no null. The fingerprint is the same as long as host name, network card and processor are.

use crate::answer::Json;
use crate::daemon::Daemon;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// What is known.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct MachineInfo {
    hostname: String,
    mac_address: String,
    node_id: String,
    num_cores: usize,
    kernel_version: Option<String>,
    platform: String,
    distribution: String,
    os_version: String,
    total_memory_bytes: u64,
    container_runtime: Option<&'static str>,
    cpu_brand: String,
    fingerprint: String,
    online_since: Option<String>,
    process_kind: &'static str,
    version: &'static str,
}

pub(crate) async fn info<D: Daemon>(State(daemon): State<D>) -> Json<MachineInfo> {
    let now = OffsetDateTime::now_utc();
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let (release, cpu) = (read("/etc/os-release"), read("/proc/cpuinfo"));
    let (hostname, mac_address) = (daemon.hostname().to_owned(), mac_address(Path::new("/sys/class/net")));
    let cpu_brand = field(&cpu, "model name", ':').unwrap_or_default();
    Json(MachineInfo {
        fingerprint: fingerprint(&[&hostname, &mac_address, &cpu_brand]),
        hostname,
        mac_address,
        node_id: daemon.node_id().to_owned(),
        num_cores: std::thread::available_parallelism().map_or(1, usize::from),
        kernel_version: Some(read("/proc/sys/kernel/osrelease").trim().to_owned()).filter(|text| !text.is_empty()),
        platform: format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
        distribution: field(&release, "ID", '=').unwrap_or_default(),
        os_version: field(&release, "VERSION_ID", '=').unwrap_or_default(),
        total_memory_bytes: memory_octets(&read("/proc/meminfo")),
        container_runtime: container(|path| Path::new(path).exists()),
        cpu_brand,
        online_since: (now - daemon.uptime()).format(&Rfc3339).ok(),
        process_kind: D::KIND,
        version: env!("CARGO_PKG_VERSION"),
    })
}

/// The value of a name in lines of names and values.
fn field(text: &str, name: &str, separator: char) -> Option<String> {
    let values = text.lines().filter_map(|line| line.split_once(separator));
    let (_, value) = values.into_iter().find(|(named, _)| named.trim() == name)?;
    Some(value.trim().trim_matches('"').to_owned())
}

fn memory_octets(meminfo: &str) -> u64 {
    let kib = field(meminfo, "MemTotal", ':').and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    kib.unwrap_or_default() * 1024
}

/// The address of the first network card that has one, by name.
fn mac_address(cards: &Path) -> String {
    let mut cards: Vec<_> = fs::read_dir(cards).into_iter().flatten().flatten().map(|card| card.path()).collect();
    cards.sort();
    let addresses = cards.iter().filter_map(|card| fs::read_to_string(card.join("address")).ok());
    let mut real = addresses.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty() && text != LOOPBACK);
    real.next().unwrap_or_default()
}

fn container(exists: impl Fn(&str) -> bool) -> Option<&'static str> {
    CONTAINERS.iter().find(|(mark, _)| exists(mark)).map(|(_, runtime)| *runtime)
}

fn fingerprint(parts: &[&str]) -> String {
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// The address of a card that is none.
const LOOPBACK: &str = "00:00:00:00:00:00";
/// Files by which containers know themselves.
const CONTAINERS: [(&str, &str); 3] =
    [("/run/.containerenv", "podman"), ("/.dockerenv", "docker"), ("/var/run/secrets/kubernetes.io", "kubernetes")];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_says_is_read() {
        let release = "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nVERSION_ID=\"12\"\nID=debian\n";
        assert_eq!(field(release, "ID", '=').as_deref(), Some("debian"));
        assert_eq!(field(release, "VERSION_ID", '=').as_deref(), Some("12"));
        assert_eq!(field(release, "VERSION", '='), None);
        assert_eq!(field("processor\t: 0\nmodel name\t: A: B\n", "model name", ':').as_deref(), Some("A: B"));
        assert_eq!(memory_octets("MemTotal:       24512000 kB\nMemFree: 1 kB\n"), 24_512_000 * 1024);
        assert_eq!(memory_octets(""), 0);
        assert_eq!(container(|path| path == "/.dockerenv"), Some("docker"));
        assert_eq!(container(|_| false), None);
        assert_ne!(fingerprint(&["a", "b"]), fingerprint(&["ab", ""]));
    }

    #[test]
    fn the_first_real_card_counts() {
        let cards = tempfile::tempdir().expect("scratch");
        for (name, address) in [("lo", "00:00:00:00:00:00\n"), ("eth1", "02:00:00:00:00:01\n"), ("eth0", "\n")] {
            let card = cards.path().join(name);
            fs::create_dir(&card).expect("made");
            fs::write(card.join("address"), address).expect("written");
        }
        assert_eq!(mac_address(cards.path()), "02:00:00:00:00:01");
        assert_eq!(mac_address(Path::new("/nonexistent")), "");
    }
}
