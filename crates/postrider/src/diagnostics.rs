//! The diagnostic log: stderr, filtered by `KUMOD_LOG` (KumoMTA behaviour).

use anyhow::Context;
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

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

/// Starts the log. `default` is the filter when `KUMOD_LOG` is not set.
pub fn start(format: Format, default: &str) -> anyhow::Result<()> {
    let wanted = std::env::var("KUMOD_LOG");
    let mut text = wanted.as_deref().unwrap_or(default).to_owned();
    // Scripts hear of everything that it has to say, which may be whole messages.
    if !text.contains("lapin") {
        text += ",lapin=off";
    }
    let filter = EnvFilter::try_new(&text).with_context(|| format!("KUMOD_LOG=`{text}`: expected target=level,..."))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    match format {
        Format::Full => builder.init(),
        Format::Compact => builder.compact().init(),
        Format::Pretty => builder.pretty().init(),
        Format::Json => builder.json().init(),
    }
    Ok(())
}
