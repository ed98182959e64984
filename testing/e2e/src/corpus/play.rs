//! A case is played: the program started, its clients heard, its deliveries and records awaited, the program stopped.
//!
//! In: a [`Case`]. Out: what was not as expected, a text each, with the program's stderr behind. Waiting is for events
//! with deadlines: what has to come is awaited, then nothing but `queued` may be left, and after an orderly stop
//! everything that was delivered or logged is compared.

use crate::corpus::case::{Act, Case, How, Step};
use crate::corpus::client::Client;
use crate::corpus::judge;
use crate::corpus::pattern::Pattern;
use crate::corpus::remote::Remote;
use crate::http;
use crate::kumod::{Kumod, Launch, policy_file};
use crate::logs::Logs;
use crate::process::Finished;
use crate::scratch::Scratch;
use crate::until::{SOON, eventually};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Plays a case; empty when all was as expected.
pub fn play(case: &Case) -> Vec<String> {
    let scratch = Scratch::new();
    let here = scratch.folder("here");
    for (name, content) in &case.files {
        let file = here.join(name);
        fs::create_dir_all(file.parent().expect("it lies in a folder")).expect("the folder of a file of the case");
        fs::write(file, content).expect("a file of the case");
    }
    let remotes: Vec<Remote> = case.remotes.iter().map(Remote::start).collect();
    let mut launch = Launch::policy(&case.policy)
        .env("CORPUS_DIR", &here)
        .env("CORPUS_BASE", policy_file("base.lua").parent().expect("a folder"))
        .env("POSTRIDER_RESOLVERS", "127.0.0.1:1");
    for remote in &remotes {
        launch = launch.env(&format!("CORPUS_{}", remote.name.to_uppercase()), remote.address.to_string());
    }
    match case.act {
        Act::Serve => Stage { case, here: &here, remotes: &remotes, launch }.play(),
        Act::StartFails => ended(case, &launch.run(), false),
        Act::Validate { passes } => ended(case, &launch.arg("--validate").run(), passes),
    }
}

/// A program that ended by itself.
fn ended(case: &Case, finished: &Finished, well: bool) -> Vec<String> {
    let mut wrong = Vec::new();
    if finished.status.success() != well {
        let wanted = if well { "success" } else { "failure" };
        wrong.push(format!("exit: expected {wanted}, found {}", finished.status));
    }
    wrong.extend(missing("stderr", &case.stderr, &finished.stderr));
    wrong.extend(missing("stdout", &case.stdout, &finished.stdout));
    if !wrong.is_empty() {
        wrong.push(format!("--- stdout\n{}\n--- stderr\n{}", finished.stdout, finished.stderr));
    }
    wrong
}

/// The lines that are not there.
fn missing(stream: &str, expected: &[Pattern], text: &str) -> Vec<String> {
    let is_missing = |pattern: &&Pattern| !text.lines().any(|line| pattern.matches(line));
    expected.iter().filter(is_missing).map(|pattern| format!("{stream}: no line  {pattern}")).collect()
}

struct Stage<'a> {
    case: &'a Case,
    here: &'a Path,
    remotes: &'a [Remote],
    launch: Launch,
}

impl Stage<'_> {
    fn play(&self) -> Vec<String> {
        let mut server = self.launch.start();
        let talked = self.talk(&mut server);
        let waited = talked.and_then(|()| self.wait(&server));
        let stderr = || format!("--- stderr\n{}", server.process.stderr());
        if let Err(why) = waited {
            return vec![why, stderr()];
        }
        let finished = server.stop();
        let mut wrong = self.compare();
        wrong.extend(missing("stderr", &self.case.stderr, &finished.stderr));
        wrong.extend(missing("stdout", &self.case.stdout, &finished.stdout));
        if !wrong.is_empty() {
            wrong.push(format!("--- stderr\n{}", finished.stderr));
        }
        wrong
    }

    fn talk(&self, server: &mut Kumod) -> Result<(), String> {
        let mut client: Option<Client> = None;
        for step in &self.case.steps {
            match step {
                Step::Emptied => {
                    let is_empty = || server.is_recovered() && server.metric("message_count") == 0.0;
                    eventually(PATIENCE, || is_empty().then_some(())).ok_or("emptied: mail is left")?;
                }
                Step::Restart => {
                    client = None;
                    self.restart(server);
                }
                Step::Connect { listener, how, greeting } => client = Some(connect(server, *listener, *how, greeting)?),
                Step::Mail { from, to, content, reply } => mail(server, from, to, content, reply)?,
                Step::Http { method, path, body, answer } => {
                    let (status, text) = http::send(server.http(), method, path, "application/json", body);
                    let found = format!("{status} {}", text.trim_end());
                    if !answer.matches(&found) {
                        return Err(format!("{method} {path}\n  expected  {answer}\n  found     {found}"));
                    }
                }
                Step::Say { line, reply } => open(server, &mut client)?.say(line, reply)?,
                Step::Content(line) => open(server, &mut client)?.send(line),
                Step::Hear(reply) => open(server, &mut client)?.hear(reply)?,
                Step::Closed => open(server, &mut client)?.hear_the_end()?,
            }
        }
        Ok(())
    }

    /// Stops the program in order, and starts it again.
    fn restart(&self, server: &mut Kumod) {
        server.process.signal(nix::sys::signal::Signal::SIGTERM);
        server.process.finish(SOON).success();
        *server = self.launch.start();
    }

    /// Awaits what has to come, then that nothing is left but what should be.
    fn wait(&self, server: &Kumod) -> Result<(), String> {
        let (case, patience) = (self.case, PATIENCE);
        for remote in self.remotes {
            let count = case.arrivals.iter().filter(|block| block.kind == remote.name).count();
            if remote.await_arrivals(count, patience).len() < count {
                let mut wrong = self.compare_arrivals();
                wrong.extend(self.compare_records());
                return Err(format!("waited {patience:?} for what did not arrive\n{}", wrong.join("\n")));
            }
        }
        if case.queued > 0 {
            // Nothing else says that what has to be logged was.
            let all = || (self.compare_records().is_empty()).then_some(());
            eventually(patience, all).ok_or_else(|| self.compare_records().join("\n"))?;
        }
        for (queue, why) in &case.waiting {
            let is_so = || why.matches(&what_for(server, queue)).then_some(());
            eventually(patience, is_so)
                .ok_or_else(|| format!("{queue} waits: expected  {why}\n  found     {}", what_for(server, queue)))?;
        }
        let written = || case.written.iter().all(|(file, pattern)| self.is_written(file, pattern)).then_some(());
        eventually(patience, written).ok_or_else(|| self.compare_written().join("\n"))?;
        for (stream, expected) in [("stderr", &case.stderr), ("stdout", &case.stdout)] {
            let text = || if stream == "stderr" { server.process.stderr() } else { server.process.stdout() };
            let said = || missing(stream, expected, &text()).is_empty().then_some(());
            eventually(patience, said).ok_or_else(|| missing(stream, expected, &text()).join("\n"))?;
        }
        let left = || server.metric("message_count") == case.queued as f64;
        eventually(patience, || left().then_some(())).ok_or_else(|| {
            let found = server.metric("message_count");
            format!("queued: expected {}, found {found}\n{}", case.queued, self.compare_records().join("\n"))
        })
    }

    fn compare(&self) -> Vec<String> {
        [self.compare_arrivals(), self.compare_records(), self.compare_written()].concat()
    }

    fn compare_arrivals(&self) -> Vec<String> {
        let at = |remote: &Remote| {
            let expected: Vec<_> = self.case.arrivals.iter().filter(|block| block.kind == remote.name).collect();
            judge::arrivals(&remote.name, &expected, &remote.await_arrivals(0, Duration::ZERO))
        };
        self.remotes.iter().flat_map(at).collect()
    }

    fn compare_records(&self) -> Vec<String> {
        judge::records(&self.case.records, &self.case.unlogged, &Logs::new(self.here.join("logs")).records())
    }

    fn compare_written(&self) -> Vec<String> {
        let wrong = self.case.written.iter().filter(|(file, pattern)| !self.is_written(file, pattern));
        let text = |(file, pattern): &(String, Pattern)| {
            format!("wrote {file}: expected  {pattern}\n  found     {:?}", self.contents(file))
        };
        wrong.map(text).collect()
    }

    fn is_written(&self, file: &str, pattern: &Pattern) -> bool {
        let contents = self.contents(file);
        contents.len() == 1 && pattern.matches(&contents[0])
    }

    /// The files of this name, lines with ` / ` between; `*` is any one name on the way.
    fn contents(&self, file: &str) -> Vec<String> {
        let mut paths = vec![self.here.to_owned()];
        for name in file.split('/') {
            let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().filter_map(|e| Some(e.ok()?.path()));
            paths = match name {
                "*" => paths.iter().flat_map(|path| entries(path).collect::<Vec<_>>()).collect(),
                name => paths.iter().map(|path| path.join(name)).collect(),
            };
        }
        let texts = paths.iter().filter_map(|path| fs::read_to_string(path).ok());
        texts.map(|text| text.lines().collect::<Vec<_>>().join(" / ")).collect()
    }
}

fn connect(server: &Kumod, listener: usize, how: How, greeting: &Pattern) -> Result<Client, String> {
    let address = *server.smtp.get(listener - 1).ok_or_else(|| format!("there is no listener {listener}"))?;
    if how == How::Tls {
        return Client::connect_tls(address);
    }
    let mut client = Client::connect(address)?;
    if how == How::Clear {
        client.hear(greeting)?;
    }
    Ok(client)
}

/// The client that is there, or a new one.
fn open<'a>(server: &Kumod, client: &'a mut Option<Client>) -> Result<&'a mut Client, String> {
    if client.is_none() {
        *client = Some(connect(server, 1, How::Clear, &Pattern::new("220 *"))?);
    }
    Ok(client.as_mut().expect("made above"))
}

/// What the first message of a queue waits for; the whole answer when there is no such message.
fn what_for(server: &Kumod, queue: &str) -> String {
    let (_, text) = http::get(server.http(), &format!("/api/admin/inspect-sched-q/v1?queue_name={queue}"));
    let found: Value = serde_json::from_str(&text).unwrap_or_default();
    found["messages"][0]["why"].as_str().map_or(text, str::to_owned)
}

fn mail(server: &Kumod, from: &str, to: &[String], content: &[String], reply: &Pattern) -> Result<(), String> {
    let yes = Pattern::new("250 *");
    let mut client = connect(server, 1, How::Clear, &Pattern::new("220 *"))?;
    client.say("EHLO client.test", &yes)?;
    client.say(&format!("MAIL FROM:<{from}>"), &yes)?;
    for recipient in to {
        client.say(&format!("RCPT TO:<{recipient}>"), &yes)?;
    }
    client.say("DATA", &Pattern::new("354 *"))?;
    if content.is_empty() {
        DEFAULT_CONTENT.iter().for_each(|line| client.send(line));
    }
    content.iter().for_each(|line| client.send(line));
    client.say(".", reply).map_err(|why| format!("mail {from} to {}\n  {why}", to.join(" ")))
}

/// Of a message whose content does not matter.
const DEFAULT_CONTENT: [&str; 4] = ["From: <author@source.test>", "Subject: hello", "", "Hello."];
/// Things that normally take milliseconds.
const PATIENCE: Duration = Duration::from_secs(20);
