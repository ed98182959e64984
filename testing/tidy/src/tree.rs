//! The checkout as tidy reads it: the crates from `cargo metadata`, and the text files.
//!
//! Walks the folder, so that a file not yet known to git is judged too; leaves out what is built,
//! version control's own folder, links, files that are not UTF-8, and those over
//! [`FILE_OCTETS_MAX`]. The only file of this crate that does I/O.

use crate::Source;
use crate::layers::{Crate, Use};
use cargo_metadata::{DependencyKind, MetadataCommand};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Larger files are data.
pub const FILE_OCTETS_MAX: u64 = 4 << 20;

/// The checkout.
#[derive(Debug)]
pub struct Tree {
    root: PathBuf,
    /// Text files by path, relative to the root, with `/`.
    pub files: BTreeMap<String, String>,
}

impl Tree {
    /// Reads the checkout this crate stands in.
    ///
    /// # Errors
    /// When a folder or file does not read.
    pub fn read() -> io::Result<Tree> {
        // Where cargo runs this, not where it was compiled: checkouts that share a build folder share this program.
        let here = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        let root = Path::new(&here).join("../..").canonicalize()?;
        let mut files = BTreeMap::new();
        collect(&root, "", &mut files)?;
        Ok(Tree { root, files })
    }

    /// The Rust files, parsed; modules declared under test are marked as tests.
    pub fn sources(&self) -> Vec<Source> {
        let rust = self.files.iter().filter(|(path, _)| path.ends_with(".rs"));
        let mut sources: Vec<Source> = rust.map(|(path, text)| Source::new(path, text)).collect();
        let tests: Vec<String> = sources.iter().flat_map(Source::test_module_files).collect();
        for source in &mut sources {
            // A test module's own modules stand in the folder of its name.
            let below = |file: &String| source.path.starts_with(&format!("{}/", file.trim_end_matches(".rs")));
            source.is_test |= tests.iter().any(|file| *file == source.path || below(file));
        }
        sources
    }

    /// Files of code, in any language.
    pub fn code_files(&self) -> impl Iterator<Item = (&str, &str)> {
        let is_code = |path: &str| CODE_ENDINGS.iter().any(|ending| path.ends_with(ending));
        self.files.iter().filter(move |(path, _)| is_code(path)).map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The crates of the workspace with what they name.
    ///
    /// # Errors
    /// When cargo cannot read the manifests.
    pub fn crates(&self) -> Result<Vec<Crate>, cargo_metadata::Error> {
        let mut command = MetadataCommand::new();
        command.manifest_path(self.root.join("Cargo.toml")).no_deps().other_options(vec!["--offline".into()]);
        let metadata = command.exec()?;
        let crates = metadata.packages.into_iter().map(|package| {
            let manifest =
                package.manifest_path.strip_prefix(self.root.to_str().unwrap_or("")).map(ToString::to_string);
            let of = |d: &cargo_metadata::Dependency| Use {
                name: d.name.clone(),
                is_dev: d.kind == DependencyKind::Development,
            };
            Crate {
                name: package.name.to_string(),
                manifest: manifest.unwrap_or_else(|_| package.manifest_path.to_string()),
                uses: package.dependencies.iter().map(of).collect(),
            }
        });
        Ok(crates.collect())
    }
}

fn collect(folder: &Path, prefix: &str, files: &mut BTreeMap<String, String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}/{name}") };
        // Neither follows links nor minds a file that somebody just took away.
        let Ok(facts) = entry.metadata() else { continue };
        if facts.is_dir() && !SKIPPED_FOLDERS.contains(&name.as_str()) {
            collect(&entry.path(), &path, files)?;
        } else if facts.is_file() && facts.len() <= FILE_OCTETS_MAX {
            let text = fs::read(entry.path()).ok().and_then(|octets| String::from_utf8(octets).ok());
            files.extend(text.map(|text| (path, text)));
        }
    }
    Ok(())
}

/// Built or kept by tools; none is part of the tree.
const SKIPPED_FOLDERS: [&str; 5] = [".git", "target", "corpus", "artifacts", "__pycache__"];
const CODE_ENDINGS: [&str; 5] = [".rs", ".sh", ".py", ".lua", ".c"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_of_tests_are_tests_down_to_their_folders() {
        let files = [
            ("crates/x/src/lib.rs", "//! X.\nmod a;\n#[cfg(test)]\nmod a_tests;"),
            ("crates/x/src/a.rs", "//! A."),
            ("crates/x/src/a_tests.rs", "//! Tests.\nmod more;"),
            ("crates/x/src/a_tests/more.rs", "//! More."),
        ];
        let files = files.map(|(path, text)| (path.to_string(), text.to_string())).into();
        let tree = Tree { root: PathBuf::new(), files };
        let tests: Vec<_> = tree.sources().into_iter().filter(|s| s.is_test).map(|s| s.path).collect();
        assert_eq!(tests, ["crates/x/src/a_tests.rs", "crates/x/src/a_tests/more.rs"]);
    }

    #[test]
    fn the_checkout_reads() {
        let tree = Tree::read().expect("the checkout");
        assert!(tree.files.contains_key("testing/tidy/src/tree.rs"));
        assert!(tree.code_files().all(|(path, _)| !path.ends_with(".md")));
        let crates = tree.crates().expect("cargo metadata");
        let tidy = crates.iter().find(|c| c.name == "tidy").expect("this crate");
        assert_eq!(tidy.manifest, "testing/tidy/Cargo.toml");
        assert!(tidy.uses.contains(&Use { name: "cargo_metadata".into(), is_dev: false }));
    }
}
