//! Who this process is: host name, node id, and numbers nobody can guess.

use anyhow::Context;
use std::fs;
use std::io::Read;
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
    match fs::read_to_string(&path) {
        Ok(text) if !text.trim().is_empty() => {
            Uuid::parse_str(text.trim()).with_context(|| format!("{}: expected a UUID", path.display()))
        }
        // Absent, or cut short by a power failure at the very first start.
        _ => {
            let mut octets = [0; 16];
            random(&mut octets)?;
            let id = uuid::Builder::from_random_bytes(octets).into_uuid();
            fs::write(&path, id.to_string()).with_context(|| format!("cannot write {}", path.display()))?;
            Ok(id)
        }
    }
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
