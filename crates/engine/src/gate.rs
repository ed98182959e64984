//! Who may do what, decided: policy says who somebody is and which rules there are, and the accounting log hears what came of it.

use access::{AuthInfo, Disposition};
use policy::{Policy, PolicyError};
use std::sync::Arc;
use telemetry::Accounts;

/// Decides for one program; clones share what they ask and write to.
#[derive(Clone)]
pub struct Gate {
    policy: Arc<dyn Policy>,
    accounts: Accounts,
}

impl Gate {
    /// Rules of this policy, outcomes to this log.
    pub fn new(policy: Arc<dyn Policy>, accounts: Accounts) -> Gate {
        Gate { policy, accounts }
    }

    /// Whom it asks.
    pub fn policy(&self) -> &dyn Policy {
        &*self.policy
    }

    /// Where outcomes are written.
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// Whether somebody may do something with what these resources stand for: the first rule about both decides, those of the first
    /// resource first.
    ///
    /// # Errors
    /// The policy's handler failed.
    pub async fn may(
        &self,
        resources: &[String],
        auth: &AuthInfo,
        privilege: &str,
    ) -> Result<Disposition, PolicyError> {
        let mut found = Disposition::DenyByDefault;
        for resource in resources {
            let list = self.policy.get_acl_definition(resource.clone()).await?;
            if let Some(decided) = list.and_then(|list| Disposition::of(&list, resource, auth, privilege)) {
                found = decided;
                break;
            }
        }
        self.accounts.authorization(resources, privilege, auth, &found);
        Ok(found)
    }
}
