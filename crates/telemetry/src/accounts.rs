//! The accounting log (`kumo.aaa.configure_acct_log`): who proved who they are or failed to, and who was let do what.
//!
//! In: outcomes. Out: segments called `acct-` and the time, a line of JSON each, `{"Authentication": {...}}` or
//! `{"Authorization": {...}}` (KumoMTA's shape). Without a configured log nothing is written.

use crate::log::LogError;
use crate::ring::room_for_head;
use crate::segment::{ACCOUNTS, mark_leftovers_done};
use crate::stream::{Form, Stream};
use access::{Access, AuthInfo, Disposition, Identity, Rule};
use config::AcctLog;
use serde::Serialize;
use std::sync::Arc;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A handle to the log, if there is one; clones share it.
#[derive(Clone, Default)]
pub struct Accounts(Option<Arc<Opened>>);

struct Opened {
    options: AcctLog,
    stream: Stream,
}

#[derive(Serialize)]
enum Entry<'a> {
    Authentication {
        timestamp: String,
        attempted_identity: &'a Identity,
        success: bool,
        auth_info: &'a AuthInfo,
    },
    Authorization {
        timestamp: String,
        target_resource: &'a str,
        privilege: &'a str,
        access: Access,
        matching_resource: Option<&'a str>,
        rule: Option<&'a Rule>,
        auth_info: &'a AuthInfo,
        considered_resources: &'a [String],
    },
}

impl Accounts {
    /// Opens the log; what an earlier process left open is marked complete.
    ///
    /// # Errors
    /// The directory cannot be made or read, the thread cannot be started.
    pub fn open(options: Option<&AcctLog>) -> Result<Accounts, LogError> {
        let Some(options) = options else { return Ok(Accounts::default()) };
        let directory = |cause| LogError::Directory { dir: options.log_dir.clone(), cause };
        std::fs::create_dir_all(&options.log_dir).map_err(directory)?;
        mark_leftovers_done(&options.log_dir).map_err(directory)?;
        let form = Form { options: options.segments(), prefix: ACCOUNTS, suffix: String::new(), header: Vec::new() };
        let stream = Stream::open(form).map_err(LogError::Thread)?;
        Ok(Accounts(Some(Arc::new(Opened { options: options.clone(), stream }))))
    }

    /// True while `back_pressure` records wait: whoever would add one is to wait or to be refused.
    pub fn is_full(&self) -> bool {
        self.0.as_ref().is_some_and(|opened| opened.stream.is_full())
    }

    /// Somebody said who they are; `auth` is who they were found to be.
    pub fn authentication(&self, attempted: &Identity, success: bool, auth: &AuthInfo) {
        let context = attempted.context.clone();
        // A client chooses what it calls itself.
        let attempted = &Identity { identity: attempted.identity.chars().take(NAME_CHARS_MAX).collect(), context };
        self.write(|options| {
            let wanted = if success { options.log_authn_ok } else { options.log_authn_fail };
            wanted.then(|| Entry::Authentication {
                timestamp: now(),
                attempted_identity: attempted,
                success,
                auth_info: auth,
            })
        });
    }

    /// Somebody wanted to do something with what these resources stand for.
    pub fn authorization(&self, resources: &[String], privilege: &str, auth: &AuthInfo, came_of_it: &Disposition) {
        self.write(|options| {
            let (access, found) = match came_of_it {
                Disposition::Allow { rule, resource } => (Access::Allow, Some((rule, resource))),
                Disposition::Deny { rule, resource } => (Access::Deny, Some((rule, resource))),
                Disposition::DenyByDefault => (Access::Deny, None),
            };
            let wanted = if access == Access::Allow { options.log_authz_allow } else { options.log_authz_deny };
            wanted.then(|| Entry::Authorization {
                timestamp: now(),
                target_resource: resources.first().map_or("", String::as_str),
                privilege,
                access,
                matching_resource: found.map(|(_, resource)| resource.as_str()),
                rule: found.map(|(rule, _)| rule),
                auth_info: auth,
                considered_resources: resources,
            })
        });
    }

    /// Writes everything, ends the segment and the thread.
    pub fn close(&self) {
        self.0.iter().for_each(|opened| opened.stream.close());
    }

    fn write<'a>(&self, entry: impl FnOnce(&AcctLog) -> Option<Entry<'a>>) {
        let Some(opened) = &self.0 else { return };
        let Some(entry) = entry(&opened.options) else { return };
        let mut line = Vec::new();
        room_for_head(&mut line);
        match serde_json::to_writer(&mut line, &entry) {
            Ok(()) => {
                line.push(b'\n');
                opened.stream.push(&mut line, &[], false);
            }
            Err(error) => tracing::error!("accounting log: {error}"),
        }
    }
}

fn now() -> String {
    // A date with time and offset has all that the format asks for.
    OffsetDateTime::now_utc().format(&Rfc3339).unwrap_or_default()
}

/// Characters of a name that somebody claimed.
const NAME_CHARS_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn lines(dir: &std::path::Path) -> Vec<Value> {
        let mut lines = Vec::new();
        for entry in std::fs::read_dir(dir).expect("listed") {
            let path = entry.expect("entry").path();
            let name = path.file_name().expect("name").to_string_lossy().into_owned();
            if name.starts_with('.') {
                // The room that is kept for a full disk.
                continue;
            }
            assert!(name.starts_with("acct-20"), "{name}");
            assert!(std::fs::metadata(&path).expect("metadata").permissions().readonly(), "a segment that is over");
            let text = zstd::decode_all(std::fs::File::open(&path).expect("opened")).expect("zstd");
            let text = String::from_utf8(text).expect("text");
            lines.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")));
        }
        lines
    }

    #[test]
    fn outcomes_are_written_as_the_options_say() {
        let dir = tempfile::tempdir().expect("scratch");
        let options = AcctLog { log_dir: dir.path().join("acct"), log_authn_ok: false, ..AcctLog::default() };
        let accounts = Accounts::open(Some(&options)).expect("opened");
        let ann = AuthInfo::by_password("ann");
        let attempted = &ann.identities[0];
        accounts.authentication(attempted, true, &ann);
        accounts.authentication(attempted, false, &AuthInfo::default());
        let long = AuthInfo::by_password(&"x".repeat(NAME_CHARS_MAX + 1));
        accounts.authentication(&long.identities[0], false, &AuthInfo::default());
        let resources = ["http_listener/*/api/inject".to_owned(), "http_listener".to_owned()];
        let list = access::built_in(&resources[0]).expect("there");
        let allowed = Disposition::of(&list, &resources[0], &ann, "POST").expect("decided");
        accounts.authorization(&resources, "POST", &ann, &allowed);
        accounts.authorization(&resources, "GET", &ann, &Disposition::DenyByDefault);
        accounts.close();
        let mut lines = lines(&options.log_dir);
        for line in &mut lines {
            let inner = line.as_object_mut().expect("one kind").values_mut().next().expect("its members");
            let time = inner.as_object_mut().expect("members").remove("timestamp").expect("a time");
            assert!(OffsetDateTime::parse(time.as_str().expect("text"), &Rfc3339).is_ok(), "{time}");
        }
        let who = json!({"identities": [{"identity": "ann", "context": "HttpBasicAuth"}], "groups": []});
        let rule = json!({"criteria": {"Identity": "Authenticated"}, "privilege": "POST", "access": "Allow"});
        let expected = json!([
            {"Authentication": {"attempted_identity": {"identity": "ann", "context": "HttpBasicAuth"}, "success": false,
                "auth_info": {"identities": [], "groups": []}}},
            {"Authentication": {"attempted_identity": {"identity": "x".repeat(256), "context": "HttpBasicAuth"}, "success": false,
                "auth_info": {"identities": [], "groups": []}}},
            {"Authorization": {"target_resource": resources[0], "privilege": "POST", "access": "Allow",
                "matching_resource": resources[0], "rule": rule, "auth_info": who, "considered_resources": resources}},
            {"Authorization": {"target_resource": resources[0], "privilege": "GET", "access": "Deny", "matching_resource": null,
                "rule": null, "auth_info": who, "considered_resources": resources}},
        ]);
        assert_eq!(Value::Array(lines), expected);
    }

    #[test]
    fn without_a_log_nothing_is_written_and_nobody_waits() {
        let accounts = Accounts::open(None).expect("nothing to open");
        accounts.authorization(&[], "GET", &AuthInfo::default(), &Disposition::DenyByDefault);
        assert!(!accounts.is_full());
        accounts.close();
    }
}
