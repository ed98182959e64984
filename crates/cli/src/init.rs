//! `postrider init`: four questions, or flags, and a policy with its files is there.
//!
//! In: a command line, answers on stdin. Out: files in one folder, none of which was there before, and on stdout what to publish
//! in DNS and what to do next. Fails by an answer that cannot be used, or a file that is there or cannot be written; then no file
//! is left behind.

mod plan;

use crate::output::{WELL, on_stdout, parsed};
use anyhow::{Context, bail};
use clap::Parser;
use nix::unistd::User;
use plan::{Answers, Plan};
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, Write};
use std::os::unix::fs::{OpenOptionsExt, fchown, lchown};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Writes a commented policy for this server, and the files it reads. What is not given is asked for.
#[derive(Debug, Parser)]
#[command(name = "postrider init", version)]
pub struct Options {
    /// Where the files go; none of them may be there.
    #[arg(long, default_value = "/opt/kumomta/etc/policy")]
    dir: PathBuf,
    /// What the server calls itself, as its PTR record does.
    #[arg(long)]
    hostname: Option<String>,
    /// Who may send mail to anywhere through it: addresses and blocks, with commas between.
    #[arg(long)]
    clients: Option<String>,
    /// From which of its addresses it sends: with commas between; empty: the system chooses.
    #[arg(long)]
    sources: Option<String>,
    /// Whose mail it signs: domains with commas between; a key is made for each.
    #[arg(long)]
    domains: Option<String>,
    /// Ask nothing: what is not given is as proposed.
    #[arg(long)]
    yes: bool,
    /// Where it listens for SMTP.
    #[arg(long, default_value = "0.0.0.0:25")]
    listen: String,
    /// Where it listens for HTTP.
    #[arg(long, default_value = "127.0.0.1:8000")]
    http: String,
    /// Where mail is kept.
    #[arg(long, default_value = "/var/spool/kumomta")]
    spool: String,
    /// Where its logs go.
    #[arg(long, default_value = "/var/log/kumomta")]
    logs: String,
    /// Who the server runs as: the files are made his. Needed when root has keys made.
    #[arg(long)]
    user: Option<String>,
}

/// `postrider init` on stdout, asking on stderr.
///
/// # Errors
/// None: they are told on stderr. The shape is that of the program's other tools.
pub fn run(arguments: Vec<OsString>) -> anyhow::Result<ExitCode> {
    Ok(on_stdout(|out| run_to(arguments, &mut io::stdin().lock(), out)))
}

/// `postrider init`, answers from `input`, its text to `out`; the exit code.
///
/// # Errors
/// An answer that cannot be used; a file that is there, or cannot be written.
pub fn run_to(arguments: Vec<OsString>, input: &mut dyn BufRead, out: &mut dyn Write) -> anyhow::Result<u8> {
    let options: Options = match parsed(arguments)? {
        Ok(options) => options,
        Err(code) => return Ok(code),
    };
    let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
    let mut ask = |given: &Option<String>, question: &str, proposed: &str| match given {
        Some(given) => Ok(given.clone()),
        None if options.yes => Ok(proposed.to_owned()),
        None => asked(input, question, proposed),
    };
    let answers = Answers {
        hostname: ask(&options.hostname, "What does this server call itself (as its PTR record does)?", &host)?,
        clients: ask(&options.clients, "Who may send mail through it (addresses, blocks)?", "127.0.0.1, ::1")?,
        sources: ask(&options.sources, "From which of its addresses does it send (empty: the system chooses)?", "")?,
        domains: ask(&options.domains, "Whose mail does it sign (domains; empty: nobody's)?", "")?,
        dir: text_of(&options.dir)?,
        listen: options.listen,
        http: options.http,
        spool: options.spool,
        logs: options.logs,
    };
    let plan = Plan::new(&answers)?;
    let user = user_of(options.user, &plan)?;
    write_all(&options.dir, &plan, &user)?;
    out.write_all(plan.advice(&answers, &user.name).as_bytes())?;
    Ok(WELL)
}

/// One answer; an empty line is the proposal.
fn asked(input: &mut dyn BufRead, question: &str, proposed: &str) -> anyhow::Result<String> {
    eprint!("{question} [{proposed}] ");
    let mut line = String::new();
    if input.read_line(&mut line).context("reading the answer")? == 0 {
        bail!("no answer: give all flags, or --yes for what is proposed");
    }
    Ok(if line.trim().is_empty() { proposed.to_owned() } else { line.trim().to_owned() })
}

fn text_of(dir: &Path) -> anyhow::Result<String> {
    let whole = std::path::absolute(dir).with_context(|| format!("--dir: {}", dir.display()))?;
    Ok(whole.to_str().context("--dir: expected UTF-8")?.to_owned())
}

/// Who the server will run as: as given, or who asks. Root's keys nobody else could read.
fn user_of(given: Option<String>, plan: &Plan) -> anyhow::Result<User> {
    let own = nix::unistd::geteuid();
    match given {
        Some(name) => {
            let found = User::from_name(&name).with_context(|| format!("--user {name}"))?;
            found.with_context(|| format!("--user {name}: there is no such user"))
        }
        None if own.is_root() && plan.files.iter().any(|file| file.is_secret) => {
            bail!("--user is missing: the keys are to be read by whom the server runs as, and you are root")
        }
        None => User::from_uid(own)?.with_context(|| format!("user {own} has no name: give --user")),
    }
}

/// Writes every file, or leaves none behind.
fn write_all(dir: &Path, plan: &Plan, owner: &User) -> anyhow::Result<()> {
    if let Some(there) = plan.files.iter().map(|file| dir.join(&file.name)).find(|path| path.exists()) {
        bail!("{} is there: nothing was written", there.display());
    }
    let mut begun = Vec::new();
    let written = plan.files.iter().try_for_each(|file| write_one(dir, file, owner, &mut begun));
    if written.is_err() {
        // What cannot be removed either is named by the next run.
        begun.iter().for_each(|path| _ = fs::remove_file(path));
    }
    written
}

fn write_one(dir: &Path, file: &plan::File, owner: &User, begun: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let path = dir.join(&file.name);
    let folder = path.parent().unwrap_or(dir);
    let there = fs::symlink_metadata(folder);
    if folder != dir && there.as_ref().is_ok_and(|there| there.is_symlink()) {
        bail!("{} is a link: expected a folder, or nothing", folder.display());
    }
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let mode = if file.is_secret { 0o600 } else { 0o644 };
    let at = || format!("writing {}", path.display());
    let mut open = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path).with_context(at)?;
    begun.push(path.clone());
    open.write_all(file.text.as_bytes()).and_then(|()| open.sync_all()).with_context(at)?;
    if nix::unistd::geteuid() != owner.uid {
        let (uid, gid) = (Some(owner.uid.as_raw()), Some(owner.gid.as_raw()));
        fchown(&open, uid, gid).with_context(|| format!("giving {} away", path.display()))?;
        // What was there before stays whose it is.
        if there.is_err() {
            lchown(folder, uid, gid).with_context(|| format!("giving {} away", folder.display()))?;
        }
    }
    Ok(())
}
