//! What `kcli` says of itself: completions, in the shells that are installed, and manual pages.

use e2e::kumod::program;
use e2e::manual::{assert_formatted, assert_sound, installed, long_options, plain, shell};
use e2e::process::{Finished, run};
use e2e::scratch::Scratch;
use e2e::until::SOON;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// `kcli WORDS`.
fn kcli(words: &[&str]) -> Command {
    let mut command = program();
    command.arg("kcli").args(words);
    command
}

fn said(words: &[&str]) -> String {
    run("kcli", kcli(words), SOON).success().stdout
}

/// The verbs that `kcli --help` lists; `help` among them is of the command line itself.
fn verbs() -> BTreeSet<String> {
    let help = said(&["--help"]);
    let (_, rest) = help.split_once("\nCommands:\n").expect("a list");
    let lines = rest.lines().take_while(|line| !line.is_empty());
    let names =
        lines.filter_map(|line| line.strip_prefix("  ").filter(|name| !name.starts_with(' '))?.split(' ').next());
    let verbs: BTreeSet<String> = names.map(str::to_owned).collect();
    assert!(verbs.len() > 35 && verbs.contains("bounce") && verbs.contains("help"), "{verbs:?}");
    verbs
}

/// The long options that the help of a verb lists.
fn options(verb: &str) -> BTreeSet<String> {
    let help = said(&[verb, "--help"]);
    let options = long_options(&help);
    assert!(options.contains("--help") && options.contains("--json"), "{help}");
    options
}

#[test]
fn bash_completes_verbs_and_options() {
    let scratch = Scratch::new();
    let file = scratch.write("kcli.bash", said(&["completions", "bash"]));
    let script = scratch.write("ask.bash", ASK);
    let verbs = verbs();
    let own: Vec<&str> = verbs.iter().map(String::as_str).filter(|verb| *verb != "help").collect();
    let path = |path: &Path| path.to_str().expect("text").to_owned();
    let (script, file) = (path(&script), path(&file));
    let Finished { stdout, stderr, .. } =
        shell(&[&["bash", "--norc", "--noprofile", "-u", &script, &file][..], &own].concat()).success();
    assert_eq!(stderr, "");
    let mut answers = stdout.lines().map(|line| {
        let (asked, words) = line.split_once(':').expect("an answer");
        (asked, words.split_whitespace().map(str::to_owned).collect::<BTreeSet<_>>())
    });
    let mut next = |asked: &str| answers.next().filter(|(about, _)| *about == asked).expect(asked).1;
    let offered = next("kcli");
    assert_eq!(offered.iter().filter(|word| !word.starts_with('-')).cloned().collect::<BTreeSet<_>>(), verbs);
    assert_eq!(next("kcli bounce-").into_iter().collect::<Vec<_>>(), ["bounce-cancel", "bounce-list"]);
    for verb in own {
        let long: BTreeSet<String> = next(verb).into_iter().filter(|word| word.starts_with("--")).collect();
        assert_eq!(long, options(verb), "kcli {verb} --");
    }
}

/// Loads the file, finds the function that `complete` names, and says what it offers behind `kcli`, `kcli bounce-` and each verb.
const ASK: &str = r#"
set -e
source "$1"; shift
[[ $(complete -p kcli) =~ -F\ ([^ ]+).*\ kcli$ ]]
answer=${BASH_REMATCH[1]}
offer() { # what is asked about, then the words
  local asked=$1; shift
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
  "$answer" kcli "${!#}" "${COMP_WORDS[COMP_CWORD - 1]}"
  echo "$asked: ${COMPREPLY[*]}"
}
offer kcli kcli ''
offer 'kcli bounce-' kcli bounce-
for verb; do offer "$verb" kcli "$verb" --; done
"#;

/// Loaded where the shell is installed; the verbs are looked for everywhere.
#[test]
fn other_shells_complete_verbs() {
    let scratch = Scratch::new();
    for (name, load) in [
        ("zsh", "autoload -U compinit; compinit -u -D; source $1; (( $+functions[_kcli] ))"),
        ("fish", "source $argv[2]; complete -C 'kcli bounce-' | string match -q 'bounce-list*'"),
    ] {
        let text = said(&["completions", name]);
        let words: BTreeSet<&str> = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').collect();
        let missing: Vec<String> = verbs().into_iter().filter(|verb| !words.contains(verb.as_str())).collect();
        assert_eq!(missing, [""; 0], "{name}");
        let file = scratch.write(&format!("kcli.{name}"), text);
        if installed(name) {
            let Finished { stderr, .. } = shell(&[name, "-c", load, name, file.to_str().expect("text")]).success();
            assert_eq!(stderr, "", "{name}");
        }
    }
}

/// Whoever has read enough is no fault, a full disk is one; neither is a crash.
#[test]
fn who_does_not_take_completions_gets_no_crash() {
    for words in
        [&["completions", "bash"][..], &["completions", "zsh"], &["completions", "fish"], &["man"], &["--help"]]
    {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("there is one");
        let (code, text) = end_of(words, full.into());
        assert_eq!((code, text.as_str()), (Some(1), "error: No space left on device (os error 28)\n"), "{words:?}");
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        assert_eq!(end_of(words, writer.into()), (Some(0), String::new()), "{words:?}");
    }
}

/// Exit code and stderr of `kcli WORDS` with this as its stdout.
fn end_of(words: &[&str], stdout: Stdio) -> (Option<i32>, String) {
    let output = kcli(words).stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped()).spawn();
    let output = output.and_then(std::process::Child::wait_with_output).expect("it runs");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn there_is_a_manual_page_of_every_verb() {
    let scratch = Scratch::new();
    let folder = scratch.join("man1");
    said(&["man", "--dir", folder.to_str().expect("text")]);
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut expected: BTreeSet<String> =
        verbs().into_iter().filter(|verb| verb != "help").map(|verb| format!("kcli-{verb}.1")).collect();
    let whole = plain(&read("kcli.1"));
    let referred: BTreeSet<String> =
        whole.lines().filter_map(|line| line.strip_suffix("(1)").map(|name| format!("{name}.1"))).collect();
    assert_eq!(referred, expected, "kcli(1) names every verb, and pages that are there");
    for verb in verbs().iter().filter(|verb| *verb != "help") {
        let page = plain(&read(&format!("kcli-{verb}.1")));
        let missing: Vec<String> = options(verb).into_iter().filter(|option| !page.contains(option.as_str())).collect();
        assert_eq!(missing, [""; 0], "kcli-{verb}.1");
        assert!(page.contains(&format!("\nkcli-{verb} - ")), "what whatis and apropos read: {page}");
    }
    let of_trace = plain(&read("kcli-trace.1"));
    for side in ["server", "client"] {
        assert!(of_trace.contains(&format!("kcli-trace-{side}(1)")), "{of_trace}");
        expected.insert(format!("kcli-trace-{side}.1"));
    }
    expected.insert("kcli.1".to_owned());
    let there: BTreeSet<String> = fs::read_dir(&folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    assert_eq!(there, expected);
    for name in there {
        assert_sound(&name, &read(&name));
        assert_formatted(&folder.join(name));
    }
}

#[test]
fn the_page_on_stdout_is_the_one_in_the_folder() {
    let scratch = Scratch::new();
    said(&["man", "--dir", scratch.path().to_str().expect("text")]);
    for (file, words) in [("kcli.1", &["man"][..]), ("kcli-bounce.1", &["man", "bounce"])] {
        let page = fs::read_to_string(scratch.join(file)).expect("a page");
        // It refers to pages that are there.
        assert!(page == said(words) + "\n", "kcli {words:?} is not {file}");
    }
}
