//! Where figures are kept: a file a day and machine size, with the machine's facts above the tables and the meaning of
//! the columns below. In: tables and words. Out: a file in Markdown.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::machine::{self, Facts};
use crate::table::Table;

/// Options that all verbs with results share.
#[derive(clap::Args, Clone, Default)]
pub struct Keep {
    /// Where results are written; without it only a complete benchmark is, to bench/results
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
}

/// One verb's results.
pub struct Results<'a> {
    /// Behind the day and the number of cores in the file's name; empty for the main benchmark.
    pub suffix: &'a str,
    /// Of what, in the file's first line.
    pub title: &'a str,
    /// What it was measured on.
    pub facts: &'a Facts,
    /// Figures.
    pub tables: &'a [Table],
    /// What they mean.
    pub legend: &'a str,
}

impl Keep {
    /// Prints the results, and writes them where they belong when `complete` or asked for.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn conclude(&self, complete: bool, results: &Results) -> anyhow::Result<()> {
        for line in results.facts.lines() {
            println!("{line}");
        }
        for table in results.tables {
            print!("\n{}", table.text());
        }
        let folder = match &self.results {
            Some(folder) => folder.clone(),
            None if complete => PathBuf::from(RESULTS),
            None => return Ok(()),
        };
        println!("\nwritten to {}", results.write(&folder)?.display());
        Ok(())
    }
}

impl Results<'_> {
    /// Writes the file into `folder`.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, folder: &Path) -> anyhow::Result<PathBuf> {
        let day = time::OffsetDateTime::now_utc().date();
        let mut text = format!("# {} of {day}\n\n", self.title);
        for line in self.facts.lines() {
            text += &format!("- {line}\n");
        }
        for table in self.tables {
            text += &format!("\n{}", table.markdown());
        }
        text += &format!("\n{}", self.legend);
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let path = folder.join(format!("{day}-{}core{}.md", machine::cores(), self.suffix));
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

const RESULTS: &str = "bench/results";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_written_under_the_day() {
        let folder = tempfile::tempdir().expect("scratch folder");
        let facts = Facts::gather(&folder.path().canonicalize().expect("there")).expect("facts");
        let tables = [Table::new(&["workload", "msg/s"]), Table::new(&["other"])];
        let results = Results { suffix: "-spool", title: "Spool", facts: &facts, tables: &tables, legend: "253 us\n" };
        let path = results.write(&folder.path().join("results")).expect("written");
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        assert!(name.ends_with(&format!("-{}core-spool.md", machine::cores())) && name.starts_with("20"), "{name}");
        let text = std::fs::read_to_string(&path).expect("read");
        assert!(text.starts_with("# Spool of 20") && text.contains("- kernel: "), "{text}");
        assert!(text.contains("| workload |") && text.contains("| other |") && text.ends_with("\n253 us\n"), "{text}");
    }
}
