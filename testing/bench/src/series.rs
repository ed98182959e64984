//! What the benchmarks of the whole server share: which program, how many runs of it, where, and where the figures go.
//!
//! In: a measurement that makes tables. Out: the tables printed, and written where results are kept.

use std::path::PathBuf;

use anyhow::bail;

use crate::clock_factor::REFERENCE_US;
use crate::machine::Facts;
use crate::measure::Bench;
use crate::results::{Keep, Results};
use crate::stage::{Place, built_program};
use crate::table::Table;

/// Options of every such benchmark.
#[derive(clap::Args, Clone)]
pub struct Series {
    /// Folder with the built `postrider` [default: this program's own]
    #[arg(long, value_name = "DIR")]
    bin: Option<PathBuf>,
    /// Runs that count, after one that does not
    #[arg(long, value_name = "N", default_value_t = RUNS, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    #[command(flatten)]
    keep: Keep,
    #[command(flatten)]
    place: Place,
}

/// What a benchmark is called, and what its columns mean.
pub struct Report {
    /// Behind the day and the number of cores in the file's name; empty for the main benchmark.
    pub suffix: &'static str,
    /// Of what, in the file's first line.
    pub title: &'static str,
    /// `RUNS` and `REFERENCE` (of the clock factor, in microseconds) stand for their numbers.
    pub legend: String,
    /// Nothing was left out: with [`RUNS`] runs or more its results are kept.
    pub whole: bool,
}

/// What was measured.
pub struct Measured {
    /// Figures.
    pub tables: Vec<Table>,
    /// Why they are void, if they are.
    pub faults: Vec<String>,
}

impl Series {
    /// The same with one run.
    pub fn once(&self) -> Series {
        Series { runs: 1, ..self.clone() }
    }

    /// Measures with `act`, and reports.
    ///
    /// # Errors
    /// There is no built program, `act` fails, or its figures are void.
    pub fn measure(&self, report: Report, act: impl FnOnce(&Bench) -> anyhow::Result<Measured>) -> anyhow::Result<()> {
        let binary = built_program(self.bin.as_deref())?;
        self.place.act(|stage| {
            let bench = Bench::new(stage, &binary, self.runs)?;
            let facts = Facts::gather(&stage.logs())?;
            let Measured { tables, faults } = act(&bench)?;
            if !faults.is_empty() {
                tables.iter().for_each(|table| println!("{}", table.text()));
                bail!("{}", faults.join("\n"));
            }
            let Report { suffix, title, legend, whole } = report;
            let legend = legend.replace("RUNS", &self.runs.to_string()).replace("REFERENCE", &REFERENCE_US.to_string());
            let results = Results { suffix, title, facts: &facts, tables: &tables, legend: &legend };
            self.keep.conclude(whole && self.runs >= RUNS, &results)
        })
    }
}

impl From<Vec<Table>> for Measured {
    /// Nothing is void.
    fn from(tables: Vec<Table>) -> Measured {
        Measured { tables, faults: Vec::new() }
    }
}

/// Runs whose median is published.
const RUNS: u32 = 5;
