//! Who may do what, decided: policy says who somebody is and which rules there are, and the accounting log hears what came of it.

use access::{AuthInfo, Disposition};
use policy::{Policy, PolicyError};
use std::sync::Arc;
use std::time::Duration;
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
    /// resource first. A full accounting log does not hear of it: whoever serves requests refuses them then, but for liveness.
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
        if !self.accounts.is_full() {
            self.accounts.authorization(resources, privilege, auth, &found);
        }
        Ok(found)
    }

    /// Waits a while until the accounting log has room for who proves who they are; whether it has.
    pub(crate) async fn has_room(&self) -> bool {
        let waited = tokio::time::timeout(ROOM_WAIT_MAX, async {
            while self.accounts.is_full() {
                tokio::time::sleep(ROOM_PAUSE).await;
            }
        });
        waited.await.is_ok()
    }
}

/// How long a client that logs in waits for the accounting log.
const ROOM_WAIT_MAX: Duration = Duration::from_secs(30);
/// Between two looks.
const ROOM_PAUSE: Duration = Duration::from_millis(50);
