//! The command line about itself: what a shell completes, and manual pages.
//!
//! Owns the options of `completions` and `man`. Both are made from the structs that read the command line, so they cannot say
//! anything else. In: a shell, or where to write. Out: a script on stdout; a page on stdout or a page a verb in a directory.

use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_complete::Shell;
use std::io::Write;
use std::path::PathBuf;

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

pub(crate) fn completions(mut command: Command, given: &Completions, out: &mut dyn Write) -> Result<()> {
    // Into memory first: the generator panics when it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(given.shell, &mut command, "kcli", &mut script);
    Ok(out.write_all(&script)?)
}

pub(crate) fn man(command: Command, given: &Man, out: &mut dyn Write) -> Result<()> {
    // There is no page of `help`, so none is referred to.
    let command = command.disable_help_subcommand(true);
    if let Some(dir) = &given.dir {
        let failed = || format!("cannot write manual pages to {}", dir.display());
        std::fs::create_dir_all(dir).with_context(failed)?;
        return clap_mangen::generate_to(command, dir).with_context(failed);
    }
    let page = match &given.verb {
        None => command,
        Some(verb) => {
            let mut command = command;
            // This gives each verb its full name.
            command.build();
            let found = command.find_subcommand(verb).cloned();
            found.with_context(|| format!("no verb is called {verb:?}: kcli --help lists them"))?
        }
    };
    Ok(clap_mangen::Man::new(page).render(&mut &mut *out)?)
}
