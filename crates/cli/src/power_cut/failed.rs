//! A state that was found wrong, kept as a spool directory with what was expected of it, to be looked at
//! and checked again.

use super::check::{Failure, Verdict, check};
use super::ledger::Expected;
use super::load::Recording;
use super::states::CutDisk;
use anyhow::{Context, Result, anyhow};
use clock::WallTime;
use message::MessageId;
use serde_json::{Value, json};
use spool::FileName;
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Writes the state below `dir`; where.
pub(super) fn keep(dir: &Path, recording: &Recording, failure: &Failure) -> Result<PathBuf> {
    let path = dir.join(format!("postrider-power-cut-failed-{}-{}", failure.cut, failure.state));
    let write = |name: &str, octets: &[u8]| {
        let at = path.join(name);
        fs::write(&at, octets).with_context(|| format!("cannot write {}", at.display()))
    };
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path.join("corrupt"));
    made.with_context(|| format!("cannot create {}", path.display()))?;
    for (name, octets) in failure.disk.contents() {
        write(&name.to_string(), &octets)?;
    }
    let expected = recording.ledger.expected(failure.cut);
    let mut lines = String::new();
    for (id, expected) in &expected {
        lines.push_str(&as_json(*id, expected).to_string());
        lines.push('\n');
    }
    write(LEDGER, lines.as_bytes())?;
    Ok(path)
}

/// Recovers from a state that was kept and compares again.
pub(super) fn replay(path: &Path) -> Result<Verdict> {
    let ledger = path.join(LEDGER);
    let text = fs::read_to_string(&ledger).with_context(|| format!("cannot read {}", ledger.display()))?;
    let mut expected = BTreeMap::new();
    for line in text.lines() {
        let value: Value = serde_json::from_str(line).with_context(|| ledger.display().to_string())?;
        let (id, row) = from_json(&value).ok_or_else(|| anyhow!("{}: not a ledger: {line}", ledger.display()))?;
        expected.insert(id, row);
    }
    let onlooker = store::ReadOnlyDir::open(path)?;
    let listed = spool::SpoolFiles::list(&onlooker).with_context(|| path.display().to_string())?;
    let read = |name: FileName| {
        let at = path.join(name.to_string());
        fs::read(&at).map(|octets| (name, octets)).with_context(|| format!("cannot read {}", at.display()))
    };
    let files = listed.iter().map(|file| read(file.name)).collect::<Result<Vec<_>>>()?;
    let disk = CutDisk::of(files.into_iter());
    let recovered = check(&disk, &expected);
    let mut verdict = Verdict { cuts: 1, ..Verdict::default() };
    verdict.add(&recovered, expected.values().filter(|row| row.must).count() as u64);
    let failure = Failure { cut: 0, state: 0, wrong: recovered.wrong, disk };
    verdict.failures.extend((!failure.wrong.is_empty()).then_some(failure));
    Ok(verdict)
}

fn as_json(id: MessageId, row: &Expected) -> Value {
    json!({
        "id": id.to_string(),
        "must": row.must,
        "must_not": row.must_not,
        "octets": row.octets,
        "crc": row.crc,
        "recipients": row.recipients,
        "transaction": row.transaction,
        "unacked": row.unacked,
        "plans": row.plans.iter().map(|(attempts, due)| json!([attempts, due.unix_micros()])).collect::<Vec<_>>(),
        "settled": row.settled,
        "maybe_settled": row.maybe_settled,
    })
}

fn from_json(value: &Value) -> Option<(MessageId, Expected)> {
    let number = |name: &str| value[name].as_u64();
    let small = |value: &Value| value.as_u64().and_then(|n| u16::try_from(n).ok());
    let list = |name: &str| value[name].as_array()?.iter().map(small).collect::<Option<Vec<u16>>>();
    let plan = |plan: &Value| Some((small(&plan[0])?, WallTime::from_unix_micros(plan[1].as_i64()?)));
    let row = Expected {
        must: value["must"].as_bool()?,
        must_not: value["must_not"].as_bool()?,
        octets: number("octets")?,
        crc: u32::try_from(number("crc")?).ok()?,
        recipients: small(&value["recipients"])?,
        transaction: u32::try_from(number("transaction")?).ok()?,
        unacked: value["unacked"].as_bool()?,
        plans: value["plans"].as_array()?.iter().map(plan).collect::<Option<_>>()?,
        settled: list("settled")?,
        maybe_settled: list("maybe_settled")?,
    };
    Some((value["id"].as_str()?.parse().ok()?, row))
}

/// What was expected of the state, a JSON object a line.
const LEDGER: &str = "ledger.jsonl";
