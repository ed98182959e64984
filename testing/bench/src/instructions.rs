//! `instructions`: how many instructions each piece of a message's way takes, counted by valgrind's cachegrind, against the
//! counts that were accepted.
//!
//! Counts do not depend on what else the machine does. A piece is run twice, for few and for many messages, each in a process
//! of its own and both at once; the difference is what a message costs. In: `bench/instructions.json`. Out: a table; an error when a piece takes
//! more than was accepted and [`MORE_MAX`] of it. `--accept` writes down what is counted now.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, anyhow, bail, ensure};
use clap::ValueEnum as _;

use crate::pieces::Piece;
use crate::table::Table;

/// Options of `instructions`.
#[derive(clap::Args)]
pub struct Options {
    /// Write down what is counted now, instead of comparing with it
    #[arg(long)]
    accept: bool,
    /// The file with the accepted counts
    #[arg(long, value_name = "FILE", default_value = "bench/instructions.json")]
    accepted: PathBuf,
}

/// Options of `piece`.
#[derive(clap::Args)]
pub struct PieceOptions {
    /// Which
    piece: Piece,
    /// How often
    count: u32,
}

/// Runs a piece, for who counts.
///
/// # Errors
/// It did not do its work.
pub fn piece(options: &PieceOptions) -> anyhow::Result<()> {
    options.piece.run(options.count)
}

/// Counts, and compares or accepts.
///
/// # Errors
/// There is no valgrind, a piece fails, or one takes too many instructions.
pub fn instructions(options: &Options) -> anyhow::Result<()> {
    let mut counted = BTreeMap::new();
    for piece in Piece::value_variants() {
        counted.insert(name(*piece), per_message(*piece)?);
    }
    if options.accept {
        let text = serde_json::to_string_pretty(&counted)? + "\n";
        return std::fs::write(&options.accepted, text).with_context(|| options.accepted.display().to_string());
    }
    let accepted = read(&options.accepted)?;
    let mut table = Table::new(&["piece", "instructions", "accepted", "more"]);
    let mut over = Vec::new();
    for (name, count) in &counted {
        let Some(before) = accepted.get(name) else { bail!("{}: no count of {name}", options.accepted.display()) };
        let more = *count as f64 / *before as f64 - 1.0;
        table.row(vec![name.clone(), count.to_string(), before.to_string(), format!("{:+.1} %", more * 100.0)]);
        if more > MORE_MAX {
            over.push(format!("{name} takes {count} instructions, {before} were accepted"));
        }
    }
    print!("{}", table.text());
    if let Some(name) = accepted.keys().find(|name| !counted.contains_key(*name)) {
        bail!("{}: {name} is no piece: a count that nothing is held against", options.accepted.display());
    }
    ensure!(over.is_empty(), "{}; --accept writes down what is to be accepted", over.join("; "));
    Ok(())
}

fn per_message(piece: Piece) -> anyhow::Result<u64> {
    let (few, many) = std::thread::scope(|scope| {
        let few = scope.spawn(|| counted(piece, FEW));
        let many = counted(piece, FEW + MORE);
        (few.join(), many)
    });
    let few = few.map_err(|_| anyhow!("{piece:?}: who counts panicked"))??;
    Ok(many?.saturating_sub(few) / u64::from(MORE))
}

fn counted(piece: Piece, count: u32) -> anyhow::Result<u64> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]);
    valgrind.arg(std::env::current_exe()?).args(["piece", &name(piece), &count.to_string()]);
    valgrind.env("GLIBC_TUNABLES", COPIED_BY_LOOPS);
    let output = valgrind.output().context("valgrind")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{piece:?}: {said}");
    let line = said.lines().find_map(|line| line.split_once("I   refs:").or_else(|| line.split_once("I refs:")));
    let (_, number) = line.with_context(|| format!("valgrind counted nothing: {said}"))?;
    number.replace(',', "").trim().parse().with_context(|| format!("valgrind counted {number:?}"))
}

fn name(piece: Piece) -> String {
    piece.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

fn read(file: &Path) -> anyhow::Result<BTreeMap<String, u64>> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    serde_json::from_str(&text).with_context(|| file.display().to_string())
}

/// Of a copy by `rep movsb` each octet is counted as an instruction, and whether the C library copies so depends on where both ends
/// lie: by loops always, so that a change that moves buffers changes no count.
const COPIED_BY_LOOPS: &str =
    "glibc.cpu.x86_rep_movsb_threshold=1073741824:glibc.cpu.x86_rep_stosb_threshold=1073741824";
/// What a piece may take more than was accepted.
const MORE_MAX: f64 = 0.03;
/// Messages of the shorter run: buffers have grown by then.
const FEW: u32 = 200;
/// Messages that the longer run has more.
const MORE: u32 = 1_000;
