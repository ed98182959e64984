//! `postrider man` and `postrider completions`: the command lines of everything that the program answers to, as manual pages, and as what
//! shells complete.
//!
//! Owns the options of both. In: whose, or where to write. Out: one on stdout, or a file each in a directory. They are made from the
//! structs that read the command lines ([`crate::VERBS`]), so they cannot say anything else. What is a program by its own name has
//! pages and completions of its own; `postrider` completes all of it. What can fail is writing.

use crate::{VERBS, Verb};
use anyhow::{Context, Result, bail};
use clap::builder::Resettable;
use clap::{Command, CommandFactory, Parser};
use kcli::pages::{self, Shell};
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Writes manual pages: of postrider, and of whatever it is behind its verbs and under other names.
#[derive(Debug, Parser)]
#[command(name = "postrider man", version)]
pub(crate) struct Man {
    /// Whose page: `doctor`, `kumod`, `kcli bounce`. Default: that of postrider.
    #[arg(conflicts_with = "dir")]
    words: Vec<String>,
    /// Write all pages into this directory instead.
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// Writes what a shell needs to complete command lines.
#[derive(Debug, Parser)]
#[command(name = "postrider completions", version)]
pub(crate) struct Completions {
    /// For which shell.
    shell: Shell,
    /// Of which program: postrider, or one that it is under another name.
    #[arg(default_value = NAME, conflicts_with = "dir")]
    program: String,
    /// Write a file for each program into this directory instead, called as the shell looks for it.
    #[arg(long)]
    dir: Option<PathBuf>,
}

pub(crate) fn man(arguments: Vec<OsString>) -> Result<ExitCode> {
    let Man { words, dir } = match parsed(arguments)? {
        Ok(given) => given,
        Err(code) => return Ok(code),
    };
    if let Some(dir) = dir {
        [own()].into_iter().chain(others()).try_for_each(|command| pages::pages_into(command, &dir))?;
        return Ok(ExitCode::SUCCESS);
    }
    let other = words.first().and_then(|name| others().find(|command| command.get_name() == name));
    print(&match other {
        Some(other) => pages::page(other, &words[1..])?,
        None => pages::page(own(), &words)?,
    })
}

pub(crate) fn completions(arguments: Vec<OsString>) -> Result<ExitCode> {
    let Completions { shell, program, dir } = match parsed(arguments)? {
        Ok(given) => given,
        Err(code) => return Ok(code),
    };
    let programs = || [whole()].into_iter().chain(others());
    let Some(dir) = dir else {
        let Some(command) = programs().find(|command| command.get_name() == program) else {
            let names: Vec<String> = programs().map(|command| command.get_name().to_owned()).collect();
            bail!("no program is called {program:?}: expected one of {}", names.join(", "));
        };
        return print(&pages::completion(command, &program, shell));
    };
    let failed = || format!("cannot write completions to {}", dir.display());
    std::fs::create_dir_all(&dir).with_context(failed)?;
    for command in programs() {
        let name = command.get_name().to_owned();
        let file = match shell {
            Shell::Zsh => format!("_{name}"),
            Shell::Fish => format!("{name}.fish"),
            // What bash-completion looks for in its directory; the others have none.
            _ => name.clone(),
        };
        std::fs::write(dir.join(file), pages::completion(command, &name, shell)).with_context(failed)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `postrider` with what is a verb of it alone.
fn own() -> Command {
    let others: Vec<String> = others().map(|command| format!("{}(1)", command.get_name())).collect();
    let further = format!("Behind postrider, or where it is installed under their names: {}.", others.join(", "));
    with(|verb| !verb.is_program).after_help(further)
}

/// `postrider` with all it answers to.
fn whole() -> Command {
    with(|_| true)
}

fn with(wanted: fn(&Verb) -> bool) -> Command {
    let about = "A mail server, and the tools around it: one program, known by the verb behind it or the name it is started under";
    let postrider = Command::new(NAME).version(env!("CARGO_PKG_VERSION")).about(about).disable_help_subcommand(true);
    // Behind `postrider` it is called otherwise than by itself.
    let words = |verb: &Verb| (verb.words)().name(verb.name).bin_name(Resettable::Reset);
    postrider.subcommands(VERBS.iter().filter(|verb| wanted(verb)).map(words))
}

/// What is a program by its own name.
fn others() -> impl Iterator<Item = Command> {
    VERBS.iter().filter(|verb| verb.is_program).map(|verb| (verb.words)())
}

/// A command line; `Err` is the exit code after help or what is wrong was written.
fn parsed<O: Parser + CommandFactory>(arguments: Vec<OsString>) -> Result<Result<O, ExitCode>> {
    let error = match O::try_parse_from(arguments) {
        Ok(options) => return Ok(Ok(options)),
        Err(error) => error,
    };
    error.print().context("stderr")?;
    Ok(Err(ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))))
}

/// On stdout. Whoever has read enough of it is content.
pub(crate) fn print(text: &[u8]) -> Result<ExitCode> {
    let mut out = io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}

const NAME: &str = "postrider";
