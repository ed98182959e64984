//! The diagnostic log: stderr or files of a directory, filtered by `KUMOD_LOG`, by what policy says otherwise, and by operators while the program runs
//! (KumoMTA behaviour).

use crate::privileges;
use crate::stderr::Unheld;
use anyhow::{Context, anyhow};
use engine::Diagnostics;
use nix::unistd::User;
use std::fs;
use std::io::IsTerminal;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use tracing_appender::rolling::{RollingFileAppender, Rotation};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

/// Where it goes and how, of a server's command line (KumoMTA's options).
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Directory for the diagnostic log, a file a day, of which the last 30 are kept; stderr unless given.
    #[arg(long, value_name = "DIR")]
    diag_log_dir: Option<PathBuf>,
    /// Form of the diagnostic log.
    #[arg(long, value_enum, default_value = "full")]
    diag_format: Format,
}

/// Forms of a line, named as KumoMTA names them.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Format {
    /// Everything on one line.
    Full,
    /// Shorter lines.
    Compact,
    /// Several lines an event, for people.
    Pretty,
    /// One JSON object a line.
    Json,
}

/// Begins with a builder; what comes of it changes the filter.
macro_rules! started {
    ($builder:expr) => {{
        let builder = $builder.with_filter_reloading();
        let handle = builder.reload_handle();
        builder.init();
        Box::new(move |text: &str| handle.reload(filter(text)?).map_err(|error| error.to_string())) as Diagnostics
    }};
}

/// Starts a server's log, which `user` will write. The result changes its filter.
///
/// # Errors
/// The directory cannot be written, or the filter of `KUMOD_LOG` is none.
pub fn start(options: &Options, user: Option<&str>) -> anyhow::Result<Diagnostics> {
    begin(options.diag_format, "info", options.diag_log_dir.as_deref().map(|dir| files(dir, user)).transpose()?)
}

/// Starts the log on stderr. `default` is the filter when `KUMOD_LOG` is not set. The result changes it.
///
/// # Errors
/// The filter of `KUMOD_LOG` is none.
pub fn on_stderr(default: &str) -> anyhow::Result<Diagnostics> {
    begin(Format::Full, default, None)
}

fn begin(format: Format, default: &str, files: Option<RollingFileAppender>) -> anyhow::Result<Diagnostics> {
    let wanted = std::env::var(VARIABLE);
    let text = wanted.as_deref().unwrap_or(default);
    let first = filter(text).map_err(|error| anyhow!(error)).context(VARIABLE)?;
    let (writer, is_terminal) = match files {
        Some(files) => (BoxMakeWriter::new(files), false),
        None => {
            let stderr = Unheld::new(std::io::stderr());
            (BoxMakeWriter::new(move || stderr.clone()), std::io::stderr().is_terminal())
        }
    };
    let builder = tracing_subscriber::fmt().with_env_filter(first).with_writer(writer).with_ansi(is_terminal);
    Ok(match format {
        Format::Full => started!(builder),
        Format::Compact => started!(builder.compact()),
        Format::Pretty => started!(builder.pretty()),
        Format::Json => started!(builder.json()),
    })
}

/// A file a day in a directory, which is made. Root gives what it makes to `user`, who will write it.
fn files(dir: &Path, user: Option<&str>) -> anyhow::Result<RollingFileAppender> {
    let about = || format!("--diag-log-dir {}", dir.display());
    let is_new = !dir.exists();
    let files = RollingFileAppender::builder().rotation(Rotation::DAILY).filename_prefix(FILES);
    let files = files.max_log_files(FILES_MAX).build(dir);
    let files = files.with_context(about)?;
    if let Some(user) = user.filter(|_| privileges::is_root()) {
        let user =
            User::from_name(user).with_context(about)?.with_context(|| format!("--user {user}: no such user"))?;
        let give = |path: &Path| chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw())).with_context(about);
        for entry in fs::read_dir(dir).with_context(about)? {
            let entry = entry.with_context(about)?;
            if entry.file_name().as_encoded_bytes().starts_with(FILES.as_bytes()) {
                give(&entry.path())?;
            }
        }
        if is_new {
            give(dir)?;
        }
    }
    Ok(files)
}

/// Whether the environment has a filter, which counts before what policy says.
pub fn is_given() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

fn filter(text: &str) -> Result<EnvFilter, String> {
    // Scripts hear of everything that it has to say, which may be whole messages.
    let quiet = if text.contains("lapin") { "" } else { ",lapin=off" };
    EnvFilter::try_new(format!("{text}{quiet}"))
        .map_err(|error| format!("filter `{text}`: {error}: expected target=level,..."))
}

/// What names of files of the diagnostic log begin with. Others in the directory are not touched.
const FILES: &str = "kumod-diagnostics";
/// Files of the diagnostic log that are kept.
const FILES_MAX: usize = 30;
/// Names a filter.
const VARIABLE: &str = "KUMOD_LOG";
