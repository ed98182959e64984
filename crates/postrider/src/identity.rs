//! Who this process is: host name, node id, and numbers nobody can guess.

use anyhow::Context;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use uuid::Uuid;

/// The machine's name; `localhost` when it has none.
pub fn hostname() -> String {
    let name = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| "localhost".to_owned())
}

/// The node's id: `KUMO_NODE_ID`, else the file `KUMO_NODE_ID_PATH`, else one made up once and
/// kept in the spool's directory.
pub fn node_id(spool: &Path) -> anyhow::Result<Uuid> {
    if let Ok(text) = std::env::var("KUMO_NODE_ID") {
        return Uuid::parse_str(&text).with_context(|| format!("KUMO_NODE_ID=`{text}`: expected a UUID"));
    }
    let given = std::env::var_os("KUMO_NODE_ID_PATH").map(std::path::PathBuf::from);
    let path = given.unwrap_or_else(|| spool.join(".nodeid"));
    kept_id(&path)
}

/// The id in a file, made up when there is none: absent, or empty as a program before this may have left it in a power cut. A file that
/// cannot be read is no reason to be another node: what other nodes have of this one's mail they have by its name.
fn kept_id(path: &Path) -> anyhow::Result<Uuid> {
    match fs::read_to_string(path) {
        Ok(text) if !text.trim().is_empty() => {
            return Uuid::parse_str(text.trim()).with_context(|| format!("{}: expected a UUID", path.display()));
        }
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot read {}", path.display()));
        }
        _ => {}
    }
    let mut octets = [0; 16];
    random(&mut octets)?;
    let id = uuid::Builder::from_random_bytes(octets).into_uuid();
    write_durably(path, &id.to_string()).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(id)
}

/// Whole or not at all, and on disk.
fn write_durably(path: &Path, text: &str) -> std::io::Result<()> {
    let beside = path.with_extension("new");
    let mut file = fs::File::create(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::File::open(dir)?.sync_all()
}

/// A number that differs at each start.
pub fn seed() -> anyhow::Result<u64> {
    let mut octets = [0; 8];
    random(&mut octets)?;
    Ok(u64::from_le_bytes(octets))
}

fn random(octets: &mut [u8]) -> anyhow::Result<()> {
    fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(octets)).context("/dev/urandom")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_keeps_its_id_and_takes_no_other_when_it_cannot_be_read() {
        let dir = tempfile::tempdir().expect("scratch");
        let path = dir.path().join(".nodeid");
        let id = kept_id(&path).expect("made up");
        assert_eq!(kept_id(&path).expect("kept"), id);
        fs::write(&path, "").expect("written");
        let another = kept_id(&path).expect("an empty file says nothing");
        assert_ne!(another, id);
        fs::write(&path, b"\xff").expect("written");
        let error = kept_id(&path).expect_err("not text").to_string();
        assert!(error.contains("cannot read") && error.contains(".nodeid"), "{error}");
        assert_eq!(fs::read(&path).expect("read"), b"\xff", "what was there is there");
        assert_eq!(fs::read_dir(dir.path()).expect("listed").count(), 1, "nothing is left beside it");
    }
}
