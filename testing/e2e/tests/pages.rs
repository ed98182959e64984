//! Manual pages and completions of everything that the program answers to, by a verb or by a name of its own.

use e2e::kumod::program;
use e2e::manual::{assert_formatted, assert_sound, long_options, plain, shell};
use e2e::process::{Finished, run};
use e2e::scratch::Scratch;
use e2e::until::SOON;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// What `postrider WORDS` says.
fn said(words: &[&str]) -> String {
    let mut command = program();
    command.args(words);
    run("postrider", command, SOON).success().stdout
}

/// The verbs that `postrider --help` lists.
fn verbs() -> BTreeSet<String> {
    let help = said(&["--help"]);
    let (_, rest) = help.split_once("\n\n").expect("a list");
    let lines = rest.lines().take_while(|line| !line.is_empty());
    let verbs: BTreeSet<String> =
        lines.map(|line| line.split_whitespace().next().expect("a verb").to_owned()).collect();
    assert!(verbs.len() > 15 && PROGRAMS.iter().all(|name| verbs.contains(*name)), "{help}");
    verbs
}

fn options(verb: &str) -> BTreeSet<String> {
    let options = long_options(&said(&[verb, "--help"]));
    assert!(options.contains("--help"), "{verb}: {options:?}");
    options
}

fn is_program(verb: &str) -> bool {
    PROGRAMS.contains(&verb)
}

/// Where the package installs them under names of their own.
const PROGRAMS: [&str; 7] = ["kumod", "tsa-daemon", "kcli", "tailer", "traffic-gen", "smtp-sink", "validate-bounces"];

fn names_in(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect()
}

#[test]
fn there_is_a_manual_page_of_every_verb_that_names_every_option() {
    let scratch = Scratch::new();
    let folder = scratch.join("man1");
    said(&["man", "--dir", folder.to_str().expect("text")]);
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let there = names_in(&folder);
    let whole = plain(&read("postrider.1"));
    let mut expected = BTreeSet::from(["postrider.1".to_owned()]);
    for verb in &verbs() {
        let name = if is_program(verb) { verb.clone() } else { format!("postrider-{verb}") };
        let page = plain(&read(&format!("{name}.1")));
        let missing: Vec<String> = options(verb).into_iter().filter(|option| !page.contains(option.as_str())).collect();
        assert_eq!(missing, [""; 0], "{name}.1");
        assert!(page.contains(&format!("\n{name} - ")), "what whatis and apropos read: {page}");
        assert!(whole.contains(&format!("{name}(1)")), "{name} in {whole}");
        expected.insert(format!("{name}.1"));
    }
    // Verbs of verbs.
    let spool: BTreeSet<String> =
        ["cat", "export", "list", "salvage", "verify"].map(|verb| format!("postrider-spool-{verb}.1")).into();
    expected.extend(spool);
    let rest: BTreeSet<&String> = there.difference(&expected).collect();
    assert!(expected.is_subset(&there), "{there:?}");
    assert!(rest.len() > 40 && rest.iter().all(|name| name.starts_with("kcli-")), "{rest:?}");
    for name in there.iter().filter(|name| !name.starts_with("kcli")) {
        assert_sound(name, &read(name));
        assert_formatted(&folder.join(name));
    }
}

#[test]
fn a_page_on_stdout_is_the_one_in_the_folder() {
    let scratch = Scratch::new();
    said(&["man", "--dir", scratch.path().to_str().expect("text")]);
    for (file, words) in [
        ("postrider.1", &[][..]),
        ("postrider-doctor.1", &["doctor"]),
        ("postrider-spool-list.1", &["spool", "list"]),
        ("kumod.1", &["kumod"]),
        ("kcli-bounce.1", &["kcli", "bounce"]),
    ] {
        let page = fs::read_to_string(scratch.join(file)).expect("a page");
        assert!(
            page.trim_end() == said(&[&["man"][..], words].concat()).trim_end(),
            "postrider man {words:?} is not {file}"
        );
    }
    for (words, says) in [
        (&["man", "nothing"][..], "no verb is called \"nothing\": postrider --help lists them"),
        (&["completions", "bash", "nothing"], "no program is called \"nothing\": expected one of postrider, kumod, "),
    ] {
        let mut command = program();
        command.args(words);
        let Finished { status, stderr, stdout } = run("postrider", command, SOON);
        assert!(!status.success() && stdout.is_empty() && stderr.contains(says), "{words:?}: {stderr}");
    }
}

#[test]
fn bash_completes_every_program_and_every_verb() {
    let scratch = Scratch::new();
    let folder = scratch.join("completions");
    said(&["completions", "bash", "--dir", folder.to_str().expect("text")]);
    let programs: BTreeSet<String> = PROGRAMS.into_iter().chain(["postrider"]).map(str::to_owned).collect();
    assert_eq!(names_in(&folder), programs);
    let script = scratch.write("ask.bash", ASK);
    let verbs = verbs();
    for name in &programs {
        let file = folder.join(name);
        let text = fs::read_to_string(&file).expect("a script");
        assert!(text.trim_end() == said(&["completions", "bash", name]).trim_end(), "{name} on stdout");
        let behind: Vec<&str> =
            if name == "postrider" { verbs.iter().map(String::as_str).collect() } else { Vec::new() };
        let [script, file] = [&script, &file].map(|path| path.to_str().expect("text"));
        let words = [&["bash", "--norc", "--noprofile", "-u", script, file, name][..], &behind].concat();
        let Finished { stdout, stderr, .. } = shell(&words).success();
        assert_eq!(stderr, "", "{name}");
        let answers: Vec<BTreeSet<&str>> = stdout.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(answers.len(), 1 + behind.len(), "{name}: {stdout}");
        let long = |answer: &BTreeSet<&str>| -> BTreeSet<String> {
            answer.iter().filter(|word| word.starts_with("--")).map(|word| (*word).to_owned()).collect()
        };
        if name != "postrider" {
            assert_eq!(long(&answers[0]), options(name), "{name} --");
        }
        for (verb, answer) in behind.iter().zip(&answers[1..]) {
            assert!(answers[0].contains(verb), "postrider {verb}: {:?}", answers[0]);
            assert_eq!(long(answer), options(verb), "postrider {verb} --");
        }
    }
}

/// Loads the file, finds the function that `complete` names, and says what it offers behind the program, or `--` of it where it has no
/// verbs, and behind `--` of each verb.
const ASK: &str = r#"
set -e
source "$1"; program=$2; shift 2
[[ $(complete -p "$program") =~ -F\ ([^ ]+).*\ "$program"$ ]]
answer=${BASH_REMATCH[1]}
offer() {
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
  "$answer" "$program" "${!#}" "${COMP_WORDS[COMP_CWORD - 1]}"
  echo "${COMPREPLY[*]}"
}
if (($#)); then offer "$program" ''; else offer "$program" --; fi
for verb; do offer "$program" "$verb" --; done
"#;

/// The names that a package installs are those that the shells look for.
#[test]
fn other_shells_find_a_file_a_program() {
    let scratch = Scratch::new();
    for (name, before, after) in [("zsh", "_", ""), ("fish", "", ".fish")] {
        let folder = scratch.join(name);
        said(&["completions", name, "--dir", folder.to_str().expect("text")]);
        let expected: BTreeSet<String> =
            PROGRAMS.into_iter().chain(["postrider"]).map(|program| format!("{before}{program}{after}")).collect();
        assert_eq!(names_in(&folder), expected);
        let whole = fs::read_to_string(folder.join(format!("{before}postrider{after}"))).expect("a script");
        let words: BTreeSet<&str> = whole.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').collect();
        let missing: Vec<String> = verbs().into_iter().filter(|verb| !words.contains(verb.as_str())).collect();
        assert_eq!(missing, [""; 0], "{name}");
    }
}

/// What the help calls a verb is what its user types.
#[test]
fn the_usage_names_the_verb() {
    for verb in verbs() {
        let help = said(&[&verb, "--help"]);
        let called = if is_program(&verb) { verb.clone() } else { format!("postrider {verb}") };
        assert!(help.contains(&format!("Usage: {called}")), "{help}");
    }
}
