//! What became of a request, as clients read it.

use crate::RecipientError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many messages are queued, and for whom there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// Messages that are on their way.
    pub success_count: usize,
    /// Recipients without one.
    pub fail_count: usize,
    /// Their addresses.
    pub failed_recipients: Vec<String>,
    /// What is wrong with each, behind its address.
    pub errors: Vec<String>,
}

impl Outcome {
    /// Notes a recipient without a message.
    pub fn failed(&mut self, error: &RecipientError) {
        self.fail_count += 1;
        self.errors.push(error.to_string());
        self.failed_recipients.push(error.email.clone());
    }
}
