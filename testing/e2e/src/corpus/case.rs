//! A case as its file tells it: what is done to the program, and what has to come of it.
//!
//! In: the comment a policy begins with (`corpus/README.md` describes the language). Out: a [`Case`], or the line that
//! makes no sense. What nobody would miss is refused: unknown words, unknown fields, a case without an expectation.

use crate::corpus::pattern::Pattern;
use std::path::PathBuf;

/// One policy and its story.
#[derive(Clone, Debug)]
pub struct Case {
    /// The file's name without its end.
    pub name: String,
    /// The policy.
    pub policy: PathBuf,
    /// What is done with the program.
    pub act: Act,
    /// What clients do while it serves, in order.
    pub steps: Vec<Step>,
    /// Servers that mail may go to; `sink` is always there.
    pub remotes: Vec<RemoteSpec>,
    /// Files that are there before the start, with their content.
    pub files: Vec<(String, String)>,
    /// Every message that arrives, remote and fields.
    pub arrivals: Vec<Block>,
    /// Log records, type and fields.
    pub records: Vec<Block>,
    /// Types of which there is no record.
    pub unlogged: Vec<String>,
    /// Files that are there in the end.
    pub written: Vec<(String, Pattern)>,
    /// Lines of stderr.
    pub stderr: Vec<Pattern>,
    /// Lines of stdout.
    pub stdout: Vec<Pattern>,
    /// What the first message of a queue waits for, by queue.
    pub waiting: Vec<(String, Pattern)>,
    /// Messages left in the program.
    pub queued: usize,
}

/// What is done with the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// It serves and is stopped.
    Serve,
    /// It is started and has to end by itself, in failure.
    StartFails,
    /// `--validate`, which passes or not.
    Validate {
        /// The verdict that is expected.
        passes: bool,
    },
}

/// Something a client does, or hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Connects to a listener, counted from 1.
    Connect {
        /// Which listener.
        listener: usize,
        /// In clear, with STARTTLS, or before any greeting.
        how: How,
        /// The greeting.
        greeting: Pattern,
    },
    /// Says a line and hears a reply.
    Say {
        /// What is said.
        line: String,
        /// What is heard.
        reply: Pattern,
    },
    /// Says a line and waits for nothing.
    Content(String),
    /// Hears a reply to nothing it said just now.
    Hear(Pattern),
    /// The server hangs up.
    Closed,
    /// A whole message over a connection of its own.
    Mail {
        /// The reverse path.
        from: String,
        /// The recipients.
        to: Vec<String>,
        /// The lines of its content.
        content: Vec<String>,
        /// The reply to its end.
        reply: Pattern,
    },
    /// A request to the HTTP listener.
    Http {
        /// The method.
        method: String,
        /// The path.
        path: String,
        /// The body, JSON.
        body: String,
        /// Status and body of the answer.
        answer: Pattern,
    },
    /// No message is left in the program: what came later is not among what came before.
    Emptied,
    /// The program is stopped in order and started again.
    Restart,
}

/// How a client connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It reads the greeting.
    Clear,
    /// openssl reads the greeting and starts TLS.
    Tls,
    /// It reads nothing.
    Silent,
}

/// A server that mail may go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteSpec {
    /// Its name.
    pub name: String,
    /// How it departs from answering all with yes.
    pub rules: Vec<Rule>,
}

/// An answer to commands that begin in a certain way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Only the first such command gets it.
    pub is_first_only: bool,
    /// How the command begins; `connect` for the greeting, `.` for the end of content.
    pub command: String,
    /// The answer.
    pub answer: Answer,
}

/// What a remote answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// These lines.
    Lines(Vec<String>),
    /// It hangs up.
    Close,
    /// It says nothing.
    Silence,
}

/// Something expected, by its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The type of a record, or the remote of an arrival.
    pub kind: String,
    /// The fields that are compared.
    pub fields: Vec<(String, Pattern)>,
}

impl Block {
    /// True when everything is as the fields say; `of` finds a field.
    pub fn fits(&self, of: impl Fn(&str, &Pattern) -> bool) -> bool {
        self.fields.iter().all(|(name, pattern)| of(name, pattern))
    }

    /// As it is written.
    pub fn text(&self) -> String {
        let fields: Vec<String> = self.fields.iter().map(|(name, pattern)| format!("{name}: {pattern}")).collect();
        format!("{} {{ {} }}", self.kind, fields.join("; "))
    }
}

impl Case {
    /// True when nothing would be noticed if the behaviour were missing.
    pub fn is_idle(&self) -> bool {
        let hears = |step: &Step| match step {
            Step::Say { reply, .. } | Step::Mail { reply, .. } => !is_yes(reply),
            Step::Connect { greeting, .. } => !is_yes(greeting),
            Step::Http { answer, .. } => !answer.is_anything(),
            Step::Closed | Step::Hear(_) => true,
            Step::Content(_) | Step::Emptied | Step::Restart => false,
        };
        let blocks = self.arrivals.len() + self.records.len() + self.unlogged.len() + self.written.len();
        let lines = self.stderr.len() + self.stdout.len();
        self.act == Act::Serve && blocks + lines == 0 && !self.steps.iter().any(hears)
    }
}

/// What any server says to anybody.
fn is_yes(reply: &Pattern) -> bool {
    reply.is_anything() || ["220 *", "250 *", "354 *", "221 *"].contains(&reply.to_string().as_str())
}
