//! Whether new mail would be accepted now, and all that stands in its way.
//!
//! Other than `Pressure::reason`, which is what a client hears, this is for whoever decides where mail is sent, and for operators: every
//! reason, those too for which clients wait and are not refused. Messages of earlier runs that are still on their way back from
//! the spool are none: new mail is accepted beside them. Nor are logs that drop what they have no room for: those
//! are told beside ([`Engine::degradations`]).

use crate::engine::Engine;
use crate::recorders::Recorders;
use crate::recovery::RecoveryState;

impl Engine {
    /// Why new mail is not accepted, in words; nothing while it is. A few atomic loads and, by logger, a lock for a moment.
    pub fn reasons_not_ready(&self) -> Vec<String> {
        let mut found = Vec::new();
        if !self.is_serving() {
            found.push("shutting down".to_owned());
        }
        if let RecoveryState::Failed(why) = self.recovery_state() {
            found.push(format!("spool unhealthy: {why}"));
        }
        found.extend(self.pressure.reasons());
        found.extend(self.full_recorders());
        if self.gate.accounts().is_full() {
            found.push("the accounting log has no room for more records".to_owned());
        }
        found
    }

    /// What is not as it should be though new mail is accepted, in words: loggers that drop records, or whose records wait for a disk.
    pub fn degradations(&self) -> Vec<String> {
        let recorders = self.recorders();
        let logs = recorders.logs.iter().filter_map(|log| {
            let what = match log.is_dropping() {
                true => "records are dropped".to_owned(),
                false => format!("records wait, the disk takes none: {}", log.refused()?),
            };
            Some(format!("log_dir {}: {what}", log.options().log_dir.display()))
        });
        let filters = recorders.filters.dropping().map(|event| format!("filter_event {event}: records are dropped"));
        logs.chain(filters).collect()
    }

    /// What [`Engine::logs_are_full`] is about, by name.
    fn full_recorders(&self) -> Vec<String> {
        let recorders = self.recorders();
        let Recorders { logs, filters, hooks, tellers } = &**recorders;
        let logs = logs.iter().filter(|log| log.is_full());
        let logs = logs.map(|log| format!("log_dir {}: back_pressure records wait", log.options().log_dir.display()));
        let filters = filters.full().map(|event| format!("filter_event {event}: back_pressure records wait"));
        let hooks = hooks.iter().filter(|hook| hook.is_full());
        let hooks = hooks.map(|hook| format!("log hook {}: back_pressure records wait", hook.options().name));
        let tellers = tellers.iter().filter(|teller| teller.is_full());
        let tellers = tellers.map(|teller| format!("log_disposition_{}: too many records wait", teller.options.name));
        logs.chain(filters).chain(hooks).chain(tellers).collect()
    }
}
