//! A command line about itself: what a shell completes, and manual pages. Of `kcli`, and of whatever program has them written here.
//!
//! Owns the options of `completions` and `man`. Both are made from the structs that read the command line, so they cannot say
//! anything else. In: a command line; a shell, or where to write. Out: a script; a page, or a page a verb in a directory.

use anyhow::{Context, Result};
use clap::{Args, Command};
pub use clap_complete::Shell;
use std::io::Write;
use std::path::{Path, PathBuf};

/// `completions`
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// For which shell.
    shell: Shell,
}

/// `man`
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// The page of this verb, instead of that of kcli.
    #[arg(conflicts_with = "dir")]
    verb: Option<String>,
    /// Write every page into this directory instead.
    #[arg(long)]
    dir: Option<PathBuf>,
}

pub(crate) fn completions(command: Command, given: &Completions, out: &mut dyn Write) -> Result<()> {
    Ok(out.write_all(&completion(command, "kcli", given.shell))?)
}

pub(crate) fn man(command: Command, given: &Man, out: &mut dyn Write) -> Result<()> {
    match &given.dir {
        Some(dir) => pages_into(command, dir),
        None => Ok(out.write_all(&page(command, given.verb.as_slice())?)?),
    }
}

/// What a shell needs to complete the command line of a program of that name.
pub fn completion(mut command: Command, name: &str, shell: Shell) -> Vec<u8> {
    // Into memory: the generator panics when it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    script
}

/// Writes the page of a command and that of each of its verbs into a directory, which is made if it is not there.
///
/// # Errors
/// It cannot be written.
pub fn pages_into(command: Command, dir: &Path) -> Result<()> {
    let failed = || format!("cannot write manual pages to {}", dir.display());
    std::fs::create_dir_all(dir).with_context(failed)?;
    clap_mangen::generate_to(without_help(command), dir).with_context(failed)
}

/// The page of a command, or that of the verb that these words behind it name.
///
/// # Errors
/// They name none.
pub fn page(command: Command, verb: &[String]) -> Result<Vec<u8>> {
    let mut command = without_help(command);
    // This gives each verb its full name.
    command.build();
    for word in verb {
        let found = command.find_subcommand(word).cloned();
        command =
            found.with_context(|| format!("no verb is called {word:?}: {} --help lists them", command.get_name()))?;
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    Ok(page)
}

/// There is no page of `help`, so none is referred to.
fn without_help(command: Command) -> Command {
    command.disable_help_subcommand(true)
}
