//! The diagnostic log: stderr, filtered by `KUMOD_LOG`, by what policy says otherwise, and by operators while the program runs
//! (KumoMTA behaviour).

use anyhow::{Context, anyhow};
use engine::Diagnostics;
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

/// Begins with a builder; what comes of it changes the filter.
macro_rules! begin {
    ($builder:expr) => {{
        let builder = $builder.with_filter_reloading();
        let handle = builder.reload_handle();
        builder.init();
        Box::new(move |text: &str| handle.reload(filter(text)?).map_err(|error| error.to_string())) as Diagnostics
    }};
}

/// Starts the log. `default` is the filter when `KUMOD_LOG` is not set. The result changes it.
pub fn start(format: Format, default: &str) -> anyhow::Result<Diagnostics> {
    let wanted = std::env::var(VARIABLE);
    let text = wanted.as_deref().unwrap_or(default);
    let first = filter(text).map_err(|error| anyhow!(error)).context(VARIABLE)?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(first)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    Ok(match format {
        Format::Full => begin!(builder),
        Format::Compact => begin!(builder.compact()),
        Format::Pretty => begin!(builder.pretty()),
        Format::Json => begin!(builder.json()),
    })
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

/// Names a filter.
const VARIABLE: &str = "KUMOD_LOG";
