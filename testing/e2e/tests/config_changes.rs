//! How the files of a configuration epoch differ from those before: asked for, and looked at in a real browser.

use e2e::browser::Browser;
use e2e::kumod::{Kumod, Launch};
use e2e::scratch::Scratch;
use e2e::stage::get;
use e2e::until::{LATER, until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

const CHANGES: &str = "/api/admin/config-changes/v1";

struct Setup {
    node: Kumod,
    scratch: Scratch,
}

impl Setup {
    fn new() -> Setup {
        let scratch = Scratch::new();
        write(&scratch, "first", "x");
        put(&scratch, "closed.toml", "password = 'tiger'\n", 0o640);
        let node = Launch::policy(scratch.join("policy.lua")).start();
        Setup { node, scratch }
    }

    /// What was told of files last, once there are at least so many notes: the file is looked at every 10 s as well.
    fn read_again(&self, notes: usize) -> Value {
        self.node.process.signal(Signal::SIGHUP);
        until(LATER, "a note", || {
            let epochs = get(&self.node, CHANGES)["epochs"].as_array().cloned().unwrap_or_default();
            let told = epochs.iter().find(|epoch| epoch["files"] != json!([]));
            told.filter(|_| epochs.len() >= notes).cloned()
        })
    }
}

fn write(scratch: &Scratch, banner: &str, more: &str) {
    let dir = scratch.path().display();
    let policy = format!(
        "local kumo = require 'kumo'
kumo.set_config_monitor_globs {{ '{dir}/*.toml' }}
kumo.on('init', function()
  for _, name in ipairs {{ 'data', 'meta' }} do
    kumo.define_spool {{ name = name, path = '{dir}/spool/' .. name }}
  end
  kumo.start_http_listener {{ listen = '127.0.0.1:0' }}
  kumo.start_esmtp_listener {{ listen = '127.0.0.1:0', banner = '{banner}' }}
end)
local password = '{more}'
"
    );
    put(scratch, "policy.lua", &policy, 0o644);
}

/// In one step: a look in between must not see half of it.
fn put(scratch: &Scratch, name: &str, text: &str, mode: u32) {
    let new = scratch.join("new");
    fs::write(&new, text).expect("a file");
    fs::set_permissions(&new, Permissions::from_mode(mode)).expect("its rights");
    fs::rename(new, scratch.join(name)).expect("in its place");
}

#[test]
fn what_changed_is_told_and_secrets_are_not() {
    let setup = Setup::new();
    assert_eq!(get(&setup.node, CHANGES)["epochs"][0]["files"], json!([]), "nothing is known of before the start");
    write(&setup.scratch, "second", "s3cret");
    put(&setup.scratch, "closed.toml", "password = 'lion'\n", 0o640);
    put(&setup.scratch, "new.toml", "a = 1\n", 0o644);
    let epoch = setup.read_again(2);
    assert_eq!((&epoch["number"], &epoch["error"]), (&json!(1), &Value::Null), "{epoch}");
    let files = epoch["files"].as_array().expect("files");
    let names: Vec<&str> = files.iter().filter_map(|file| file["file"].as_str()?.rsplit('/').next()).collect();
    assert_eq!(names, ["closed.toml", "new.toml", "policy.lua"]);
    assert_eq!((&files[0]["change"], &files[0]["lines"]), (&json!("changed"), &json!([])));
    assert_eq!(files[0]["withheld"], "not everybody on this host may read it");
    let line = |change: &str, number: usize, text: &str| json!({"change": change, "number": number, "text": text});
    assert_eq!((&files[1]["change"], &files[1]["lines"]), (&json!("added"), &json!([line("added", 1, "a = 1")])));
    let lines = files[2]["lines"].as_array().expect("lines");
    let listener =
        |banner: &str| format!("  kumo.start_esmtp_listener {{ listen = '127.0.0.1:0', banner = '{banner}' }}");
    for expected in [line("removed", 8, &listener("first")), line("added", 8, &listener("second"))] {
        assert!(lines.contains(&expected), "{expected}: {lines:?}");
    }
    let changed: Vec<&Value> = lines.iter().filter(|line| line["change"] != "same").collect();
    assert_eq!(changed[2..], [&line("removed", 10, "local pass***"), &line("added", 10, "local pass***")]);
    // One that is wrong is told with what is wrong in it, against what is in force.
    write(&setup.scratch, "third", "s3cret' .. nil .. '");
    let failed = setup.read_again(3);
    assert_eq!(failed["number"], Value::Null);
    assert!(failed["error"].as_str().is_some_and(|error| error.contains("policy.lua:10")), "{failed}");
    let lines = failed["files"][0]["lines"].as_array().expect("lines");
    assert!(lines.contains(&line("removed", 8, &listener("second"))), "{lines:?}");
    let all = get(&setup.node, CHANGES).to_string();
    for secret in ["s3cret", "tiger", "lion"] {
        assert!(!all.contains(secret), "{secret}: {all}");
    }
    setup.node.stop();
}

#[test]
fn the_console_shows_them() {
    let setup = Setup::new();
    write(&setup.scratch, "</td><script>second</script>", "x");
    put(&setup.scratch, "closed.toml", "password = 'lion'\n", 0o640);
    setup.read_again(2);
    let mut browser = Browser::start(&setup.scratch);
    browser.resize(360, 740, true);
    browser.go(&format!("http://{}/console#/config", setup.node.http()));
    browser.until_text("Epoch 1 is in force");
    browser.click("main button", "Show 2 files");
    browser.until_text("Lines are not shown: not everybody on this host may read it.");
    browser.until_text("banner = '</td><script>second</script>'");
    let lines = "[...document.querySelectorAll('.diff tr')].map(row => row.className)";
    assert_eq!(browser.ask(lines), json!(["same", "same", "same", "removed", "added", "same", "same"]));
    assert_eq!(browser.ask("document.documentElement.scrollWidth"), 360, "a phone is not scrolled sideways");
    let folder = std::env::var_os("POSTRIDER_PICTURES").map_or_else(|| setup.scratch.path().to_owned(), Into::into);
    browser.picture(&folder.join("config-changes.png"));
    browser.click("main button", "Hide 2 files");
    browser.until("document.querySelectorAll('.diff').length === 0");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    setup.node.stop();
}
