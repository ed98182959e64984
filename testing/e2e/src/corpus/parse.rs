//! From the comment at the head of a policy to a [`Case`], strictly.

use crate::corpus::case::{Act, Answer, Block, Case, How, RemoteSpec, Rule, Step};
use crate::corpus::pattern::Pattern;
use std::path::Path;

/// Reads a case; an error names the line.
pub fn parse(policy: &Path, text: &str) -> Result<Case, String> {
    let name = policy.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let head: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("--")).collect();
    let lines: Vec<&str> = head.iter().map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end()).collect();
    let title = lines.iter().take_while(|line| !line.is_empty()).count();
    if title == 0 || !lines[title - 1].ends_with('.') {
        return Err("a case begins with a sentence that says what it shows".to_owned());
    }
    let mut reader = Reader { case: Case::empty(name, policy), open: Open::Nothing };
    for (at, line) in lines.iter().enumerate().skip(title).filter(|(_, line)| !line.is_empty()) {
        reader.line(line).map_err(|why| format!("line {}: {why}: {line:?}", at + 1))?;
    }
    reader.finish()
}

/// What the lines that follow belong to.
#[derive(Debug)]
enum Open {
    Nothing,
    Remote,
    File,
    Arrival,
    Record,
    /// Content of the last step, before its reply.
    Body,
    /// A line was said, and its reply has to follow.
    Reply,
    /// The reply may follow.
    Greeting,
}

struct Reader {
    case: Case,
    open: Open,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), String> {
        if let Some(field) = line.strip_prefix("  ") {
            return self.field(field.trim_start());
        }
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if matches!(self.open, Open::Reply) && word != "<" {
            return Err("the reply has to follow what was said".to_owned());
        }
        match word {
            "|" => self.content(rest),
            "<" => self.reply(rest),
            ">" => self.step(Step::Say { line: rest.to_owned(), reply: Pattern::new("") }, Open::Reply),
            "closed" if rest.is_empty() => self.step(Step::Closed, Open::Nothing),
            "emptied" if rest.is_empty() => self.step(Step::Emptied, Open::Nothing),
            "restart" if rest.is_empty() => self.step(Step::Restart, Open::Nothing),
            "connect" => self.step(connect(rest)?, Open::Greeting),
            "mail" => self.step(mail(rest)?, Open::Body),
            "http" => self.step(http(rest)?, Open::Body),
            _ => self.expectation(word, rest),
        }
    }

    fn expectation(&mut self, word: &str, rest: &str) -> Result<(), String> {
        let block = |kind: &str| Block { kind: kind.to_owned(), fields: Vec::new() };
        self.open = match (word, rest) {
            ("remote", name) => {
                let name = one_word(name)?;
                self.case.remotes.push(RemoteSpec { name, rules: Vec::new() });
                Open::Remote
            }
            ("file", name) => {
                self.case.files.push((one_word(name)?, String::new()));
                Open::File
            }
            ("arrives", "") => self.case.arrivals.push_open(block("sink"), Open::Arrival),
            ("arrives", at) => {
                let remote = at.strip_prefix("at ").ok_or("`arrives`, or `arrives at REMOTE`")?;
                self.case.arrivals.push_open(block(remote), Open::Arrival)
            }
            ("logged", kind) if RECORD_TYPES.contains(&kind) => self.case.records.push_open(block(kind), Open::Record),
            ("unlogged", kind) if RECORD_TYPES.contains(&kind) => {
                self.case.unlogged.push_open(kind.to_owned(), Open::Nothing)
            }
            ("wrote", rest) => {
                let (file, pattern) = rest.split_once(": ").ok_or("`wrote FILE: CONTENT`")?;
                self.case.written.push((file.to_owned(), asserting(pattern)?));
                Open::Nothing
            }
            ("waits", rest) => {
                let (queue, why) = rest.split_once(": ").ok_or("`waits QUEUE: WHY`")?;
                self.case.waiting.push_open((queue.to_owned(), asserting(why)?), Open::Nothing)
            }
            ("stderr:", pattern) => self.case.stderr.push_open(asserting(pattern)?, Open::Nothing),
            ("stdout:", pattern) => self.case.stdout.push_open(asserting(pattern)?, Open::Nothing),
            ("queued", count) => {
                self.case.queued = count.parse().map_err(|_| "a number of messages")?;
                Open::Nothing
            }
            ("start", "fails") => self.act(Act::StartFails)?,
            ("validate", "passes") => self.act(Act::Validate { passes: true })?,
            ("validate", "fails") => self.act(Act::Validate { passes: false })?,
            _ => return Err("not a word of this language".to_owned()),
        };
        Ok(())
    }

    fn act(&mut self, act: Act) -> Result<Open, String> {
        if self.case.act != Act::Serve {
            return Err("said before".to_owned());
        }
        self.case.act = act;
        Ok(Open::Nothing)
    }

    fn step(&mut self, step: Step, open: Open) -> Result<(), String> {
        self.case.steps.push(step);
        self.open = open;
        Ok(())
    }

    fn content(&mut self, line: &str) -> Result<(), String> {
        match (&self.open, self.case.steps.last_mut()) {
            (Open::File, _) => {
                let (_, content) = self.case.files.last_mut().expect("a file is open");
                content.extend([line, "\n"]);
            }
            (Open::Body, Some(Step::Mail { content, .. })) => content.push(unescaped(line)),
            (Open::Body, Some(Step::Http { body, .. })) => body.extend([line, "\n"]),
            _ => self.step(Step::Content(unescaped(line)), Open::Nothing)?,
        }
        Ok(())
    }

    fn reply(&mut self, text: &str) -> Result<(), String> {
        let pattern = Pattern::new(text);
        match (&self.open, self.case.steps.last_mut()) {
            (Open::Reply, Some(Step::Say { reply, .. }))
            | (Open::Body, Some(Step::Mail { reply, .. }))
            | (Open::Greeting, Some(Step::Connect { greeting: reply, .. }))
            | (Open::Body, Some(Step::Http { answer: reply, .. })) => *reply = pattern,
            (Open::Nothing, Some(_)) => self.case.steps.push(Step::Hear(pattern)),
            _ => return Err("nothing was said that this could be a reply to".to_owned()),
        }
        self.open = Open::Nothing;
        Ok(())
    }

    fn field(&mut self, text: &str) -> Result<(), String> {
        match self.open {
            Open::Remote => {
                let rule = rule(text)?;
                self.case.remotes.last_mut().expect("a remote is open").rules.push(rule);
                return Ok(());
            }
            Open::Arrival | Open::Record => {}
            _ => return Err("a field of nothing".to_owned()),
        }
        let (name, pattern) =
            text.split_once(": ").or_else(|| Some((text.strip_suffix(':')?, ""))).unwrap_or((text, ""));
        let is_arrival = matches!(self.open, Open::Arrival);
        let known = if is_arrival { is_arrival_field(name) } else { is_record_field(name) };
        let is_absence = is_arrival && name.starts_with("no header ");
        if !known || (!text.contains(':') && !is_absence) {
            return Err("no such field".to_owned());
        }
        let pattern = if is_absence { Pattern::new("") } else { asserting(pattern)? };
        let blocks = if is_arrival { &mut self.case.arrivals } else { &mut self.case.records };
        blocks.last_mut().expect("a block is open").fields.push((name.to_owned(), pattern));
        Ok(())
    }

    fn finish(mut self) -> Result<Case, String> {
        if matches!(self.open, Open::Reply) {
            return Err("the last thing said has no reply".to_owned());
        }
        if !self.case.remotes.iter().any(|remote| remote.name == "sink") {
            self.case.remotes.push(RemoteSpec { name: "sink".to_owned(), rules: Vec::new() });
        }
        let case = self.case;
        let blocks = || case.arrivals.iter().chain(&case.records);
        if let Some(block) = blocks().find(|block| block.fields.is_empty()) {
            return Err(format!("`{}` says nothing about what is expected", block.kind));
        }
        let remotes: Vec<&str> = case.remotes.iter().map(|remote| remote.name.as_str()).collect();
        if let Some(block) = case.arrivals.iter().find(|block| !remotes.contains(&block.kind.as_str())) {
            return Err(format!("no remote is called {}", block.kind));
        }
        if case.act == Act::Serve { serves(&case) } else { ends(&case) }?;
        Ok(case)
    }
}

impl Case {
    fn empty(name: String, policy: &Path) -> Case {
        Case {
            name,
            policy: policy.to_owned(),
            act: Act::Serve,
            steps: Vec::new(),
            remotes: Vec::new(),
            files: Vec::new(),
            arrivals: Vec::new(),
            records: Vec::new(),
            unlogged: Vec::new(),
            written: Vec::new(),
            stderr: Vec::new(),
            stdout: Vec::new(),
            waiting: Vec::new(),
            queued: 0,
        }
    }
}

/// What a story of a program that serves has to have.
fn serves(case: &Case) -> Result<(), String> {
    let is_said = case.records.iter().any(|block| !["Reception", "Delivery"].contains(&block.kind.as_str()));
    if case.is_idle() {
        return Err("nothing is expected that would be missed".to_owned());
    }
    if case.records.iter().any(|block| case.unlogged.contains(&block.kind)) {
        return Err("a type is both `logged` and `unlogged`".to_owned());
    }
    if case.queued > 0 && case.waiting.is_empty() && !is_said {
        return Err("a message that is left over may be on its way: say what it `waits` for".to_owned());
    }
    Ok(())
}

/// What a story of a program that ends by itself must not have, and has to.
fn ends(case: &Case) -> Result<(), String> {
    if !case.steps.is_empty() {
        return Err("a program that does not serve has no clients".to_owned());
    }
    let blocks = case.arrivals.len() + case.records.len() + case.unlogged.len() + case.written.len();
    if blocks + case.waiting.len() + case.queued > 0 {
        return Err("a program that does not serve delivers nothing".to_owned());
    }
    if case.act != (Act::Validate { passes: true }) && case.stderr.len() + case.stdout.len() == 0 {
        return Err("nothing is expected that would be missed".to_owned());
    }
    Ok(())
}

/// A list that something is added to, and what is open then.
trait PushOpen<T> {
    fn push_open(&mut self, item: T, open: Open) -> Open;
}

impl<T> PushOpen<T> for Vec<T> {
    fn push_open(&mut self, item: T, open: Open) -> Open {
        self.push(item);
        open
    }
}

fn asserting(text: &str) -> Result<Pattern, String> {
    let pattern = Pattern::new(text);
    if pattern.is_anything() { Err("every text is like that".to_owned()) } else { Ok(pattern) }
}

/// Content as a client sends it: a bare line feed and a bare carriage return are written as Lua writes them.
fn unescaped(text: &str) -> String {
    text.replace("\\n", "\n").replace("\\r", "\r")
}

fn one_word(text: &str) -> Result<String, String> {
    let is_word = !text.is_empty() && !text.contains(' ');
    if is_word { Ok(text.to_owned()) } else { Err("expected one name".to_owned()) }
}

fn connect(rest: &str) -> Result<Step, String> {
    let (mut number, mut how) = (1, How::Clear);
    for word in rest.split_whitespace() {
        match (word, word.parse()) {
            (_, Ok(listener @ 1..)) => number = listener,
            ("tls", _) => how = How::Tls,
            ("silent", _) => how = How::Silent,
            _ => return Err("`connect [LISTENER] [tls|silent]`".to_owned()),
        }
    }
    Ok(Step::Connect { listener: number, how, greeting: Pattern::new("220 *") })
}

fn mail(rest: &str) -> Result<Step, String> {
    let (from, to) = rest.split_once(" to ").ok_or("`mail FROM to TO...`, `<>` for nobody")?;
    let from = if from == "<>" { "" } else { from };
    let to: Vec<String> = to.split_whitespace().map(str::to_owned).collect();
    Ok(Step::Mail { from: from.to_owned(), to, content: Vec::new(), reply: Pattern::new("250 *") })
}

fn http(rest: &str) -> Result<Step, String> {
    let (method, path) = rest.split_once(' ').ok_or("`http METHOD PATH`")?;
    let (method, path) = (method.to_owned(), path.to_owned());
    Ok(Step::Http { method, path, body: String::new(), answer: Pattern::new("200 *") })
}

fn rule(text: &str) -> Result<Rule, String> {
    let (command, answer) = text.split_once(" => ").ok_or("`[first] COMMAND => ANSWER`")?;
    let (is_first_only, command) = match command.strip_prefix("first ") {
        Some(command) => (true, command),
        None => (false, command),
    };
    let answer = match answer {
        "close" => Answer::Close,
        "silence" => Answer::Silence,
        lines => Answer::Lines(lines.split(" / ").map(str::to_owned).collect()),
    };
    let is_reply = |line: &String| line.len() > 3 && line.as_bytes()[..3].iter().all(u8::is_ascii_digit);
    match &answer {
        Answer::Lines(lines) if !lines.iter().all(is_reply) => Err("each line of an answer has a code".to_owned()),
        _ => Ok(Rule { is_first_only, command: command.to_owned(), answer }),
    }
}

fn is_arrival_field(name: &str) -> bool {
    let names = ["from", "to", "ehlo", "peer", "mail", "rcpt", "connection", "commands", "body", "content"];
    names.contains(&name) || name.starts_with("header ") || name.starts_with("no header ")
}

fn is_record_field(name: &str) -> bool {
    RECORD_FIELDS.contains(&name.split('.').next().unwrap_or_default())
}

/// Records that may be expected; any other type that is logged fails its case.
const RECORD_TYPES: [&str; 13] = [
    "Reception",
    "Delivery",
    "Bounce",
    "AdminBounce",
    "AdminRebind",
    "TransientFailure",
    "Expiration",
    "Delayed",
    "Rejection",
    "OOB",
    "Feedback",
    "XferIn",
    "XferOut",
];
const RECORD_FIELDS: [&str; 24] = [
    "id",
    "sender",
    "recipient",
    "queue",
    "site",
    "size",
    "response",
    "peer_address",
    "num_attempts",
    "bounce_classification",
    "egress_pool",
    "egress_source",
    "source_address",
    "feedback_report",
    "meta",
    "headers",
    "delivery_protocol",
    "reception_protocol",
    "nodeid",
    "tls_cipher",
    "tls_protocol_version",
    "tls_peer_subject_name",
    "provider_name",
    "session_id",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &str) -> Result<Case, String> {
        parse(Path::new("a/some_case.lua"), lines)
    }

    #[test]
    fn a_story_is_read_as_it_is_told() {
        let text = "-- It does\n-- what it does.\n--\n-- remote sink\n--   first RCPT TO:<a@ => 452 4.2.2 full / 452 no\n\
            -- file x.json\n-- | {}\n-- mail <> to b@c.test d@e.test\n-- | Subject: x\n-- < 550 no*\n-- connect 2 tls\n-- < 220 you\n\
            -- > NOOP\n-- < 250 fine\n-- < 421 bye\n-- closed\n-- http POST /x\n-- | {\n-- < 422 *\n-- arrives\n--   header X-A: 1\n\
            --   no header X-B\n-- logged Bounce\n--   response.code: 550\n--   queue:\n-- wrote box/*: *x*\n-- queued 2\n-- waits d.test: Held*\n\nlocal x\n-- more\n";
        let case = read(text).expect("sound");
        assert_eq!((case.name.as_str(), case.act, case.queued), ("some_case", Act::Serve, 2));
        let lines = Answer::Lines(vec!["452 4.2.2 full".to_owned(), "452 no".to_owned()]);
        let rule = Rule { is_first_only: true, command: "RCPT TO:<a@".to_owned(), answer: lines };
        assert_eq!(case.remotes, [RemoteSpec { name: "sink".to_owned(), rules: vec![rule] }]);
        assert_eq!(case.files, [("x.json".to_owned(), "{}\n".to_owned())]);
        let [Step::Mail { from, to, content, reply }, Step::Connect { listener: 2, how: How::Tls, .. }, said, ..] =
            &case.steps[..]
        else {
            panic!("{:?}", case.steps)
        };
        assert_eq!((from.as_str(), to.len(), content.len(), reply.to_string().as_str()), ("", 2, 1, "550 no*"));
        assert_eq!(*said, Step::Say { line: "NOOP".to_owned(), reply: Pattern::new("250 fine") });
        assert_eq!((case.steps.len(), case.arrivals[0].fields.len(), case.records[0].fields.len()), (6, 2, 2));
    }

    #[test]
    fn what_makes_no_sense_or_asserts_nothing_is_refused() {
        let rows = [
            ("local x\n", "begins with a sentence"),
            ("-- no full stop\n--\n-- mail a@b.test to c@d.test\n", "begins with a sentence"),
            ("-- T.\n--\n-- deliver a\n", "not a word"),
            ("-- T.\n--\n-- logged Receptions\n", "not a word"),
            ("-- T.\n--\n-- arrives\n--   subject: x\n", "no such field"),
            ("-- T.\n--\n-- arrives\n--   from\n", "no such field"),
            ("-- T.\n--\n-- logged Bounce\n--   code: 550\n", "no such field"),
            ("-- T.\n--\n-- logged Bounce\n--   queue: *\n", "every text is like that"),
            ("-- T.\n--\n-- mail a@b.test to c@d.test\n-- arrives\n", "says nothing"),
            (
                "-- T.\n--\n-- mail a@b.test to c@d.test\n-- arrives at other\n--   from: x\n",
                "no remote is called other",
            ),
            ("-- T.\n--\n-- mail a@b.test to c@d.test\n", "nothing is expected"),
            ("-- T.\n--\n-- > NOOP\n-- < 250 *\n", "nothing is expected"),
            ("-- T.\n--\n-- > NOOP\n-- > NOOP\n", "has to follow"),
            ("-- T.\n--\n-- > NOOP\n", "has no reply"),
            ("-- T.\n--\n-- < 250 x\n", "nothing was said"),
            ("-- T.\n--\n-- start fails\n", "nothing is expected"),
            ("-- T.\n--\n-- start fails\n-- stderr: x\n-- queued 1\n", "delivers nothing"),
            ("-- T.\n--\n-- start fails\n-- stderr: x\n-- > NOOP\n-- < 250 x\n", "has no clients"),
            ("-- T.\n--\n-- validate passes\n-- validate fails\n", "said before"),
            ("-- T.\n--\n-- remote sink\n--   . = 250 x\n", "COMMAND => ANSWER"),
            ("-- T.\n--\n-- remote sink\n--   . => ok\n", "has a code"),
            ("-- T.\n--\n--   from: x\n", "a field of nothing"),
            ("-- T.\n--\n-- unlogged Bounce\n-- logged Bounce\n--   queue: x\n", "both `logged` and `unlogged`"),
            ("-- T.\n--\n-- mail a@b.test to c@d.test\n-- < 250 x\n-- queued 1\n", "may be on its way"),
        ];
        for (text, why) in rows {
            let error = read(text).expect_err(text);
            assert!(error.contains(why), "{text:?}: {error}");
        }
    }
}
