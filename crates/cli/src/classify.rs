//! `postrider classify`: the class of a reply, and which rule of which file says so; `validate-bounces`: whether rules read.
//!
//! Also reads the rule files for the server ([`read_rules`]), so that tool and server cannot differ.

use crate::output::{WELL, WRONG, on_stdout, parsed, shown};
use anyhow::{Context, bail};
use bounce::{Classifier, Remembered, Rules, UNCATEGORIZED};
use clap::Parser;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Tells the bounce class of a reply and the rule that decides, then every other rule that matches. Exit 0: a rule
/// matches, 1: none does, 2: the rules do not read.
#[derive(Debug, Parser)]
#[command(name = "postrider classify", version)]
pub struct Options {
    /// Rule files in order, .toml or .json, as in kumo.configure_bounce_classifier.
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    rules: Vec<PathBuf>,
    /// For machines.
    #[arg(long)]
    json: bool,
    /// The reply on one line, as the log has it: `550 5.1.1 no such user`.
    /// It comes last, behind the files.
    #[arg(value_name = "TEXT")]
    text: Option<String>,
}

/// Reads bounce rules and prints OK, or what is wrong with them.
#[derive(Debug, Parser)]
#[command(name = "validate-bounces", version)]
pub struct FilesToValidate {
    /// Rule files in order, .toml or .json.
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

/// `postrider classify` on stdout.
///
/// # Errors
/// None: they are told on stderr. The shape is that of the program's other tools.
pub fn run(arguments: Vec<OsString>) -> anyhow::Result<ExitCode> {
    Ok(on_stdout(|out| run_to(arguments, out)))
}

/// `postrider classify`, its text to `out`; the exit code.
///
/// # Errors
/// Rules that do not read.
pub fn run_to(arguments: Vec<OsString>, out: &mut dyn Write) -> anyhow::Result<u8> {
    let Options { mut rules, json, text } = match parsed(arguments)? {
        Ok(options) => options,
        Err(code) => return Ok(code),
    };
    // `--rules` takes every word behind it, the text too.
    let text = match text {
        Some(text) => text,
        None if rules.len() > 1 => rules.pop().unwrap_or_default().to_string_lossy().into_owned(),
        None => bail!("expected the text to classify behind the files: --rules FILE... 'TEXT'"),
    };
    let classifier = read_rules(&rules, NOTHING)?;
    let why = classifier.why(&text);
    let class = why.first().map_or(UNCATEGORIZED, |first| first.class);
    if json {
        let rule = |m: &bounce::Match<'_>| serde_json::json!({"class": m.class, "rule": m.rule, "file": m.file});
        let answer = serde_json::json!({"class": class, "why": why.iter().map(rule).collect::<Vec<_>>()});
        writeln!(out, "{answer}")?;
    } else {
        writeln!(out, "{}", shown(class))?;
        for (place, m) in why.iter().enumerate() {
            let word = if place == 0 { "decided by" } else { "also      " };
            writeln!(out, "  {word} {} {}: {}", m.file, shown(m.class), shown(m.rule))?;
        }
    }
    Ok(if why.is_empty() { WRONG } else { WELL })
}

/// `validate-bounces` (KumoMTA's tool of that name).
///
/// # Errors
/// None: they are told on stderr.
pub fn validate(arguments: Vec<OsString>) -> anyhow::Result<ExitCode> {
    Ok(on_stdout(|out| {
        let options: FilesToValidate = match parsed(arguments)? {
            Ok(options) => options,
            Err(code) => return Ok(code),
        };
        read_rules(&options.files, NOTHING)?;
        writeln!(out, "OK")?;
        Ok(WELL)
    }))
}

/// Reads and compiles rule files, earlier ones first.
///
/// # Errors
/// A file that does not read, and [`bounce::RuleError`]'s causes.
pub fn read_rules(files: &[PathBuf], remembered: Remembered) -> anyhow::Result<Classifier> {
    let rules = files.iter().map(|file| read(file)).collect::<anyhow::Result<Vec<Rules>>>()?;
    Ok(Classifier::new(rules, remembered)?)
}

fn read(file: &Path) -> anyhow::Result<Rules> {
    let name = file.display().to_string();
    let octets = std::fs::metadata(file).with_context(|| name.clone())?.len();
    if octets > FILE_OCTETS_MAX {
        bail!("{name}: {octets} octets: expected at most {FILE_OCTETS_MAX}");
    }
    let text = std::fs::read_to_string(file).with_context(|| name.clone())?;
    Ok(Rules::read(&name, &text)?)
}

/// A tool looks once.
const NOTHING: Remembered = Remembered { classified: 0, uncategorized: 0 };
/// Largest rule file (octets).
const FILE_OCTETS_MAX: u64 = 16 << 20;
