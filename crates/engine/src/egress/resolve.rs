//! Where mail for a domain would go, without any: for operators who ask.
//!
//! Asks policy and DNS what `routing` asks them, and leaves no trace: no queue is made, nothing is remembered but what
//! caches remember. A domain that DNS does not resolve is its own site, so that its path can be looked at all the same.

use crate::egress::carriage::Carriage;
use crate::egress::service::suffix;
use crate::engine::Engine;
use config::{EgressPath, QueueConfig, QueueProtocol};
use message::TlsDemand;
use policy::PolicyError;
use queue::QueueName;
use route::{MailExchangers, RoutingDomain};
use std::sync::Arc;

/// One way out.
#[derive(Debug)]
pub struct ResolvedPath {
    /// The hosts; `None` when the domain does not resolve, or its mail does not go to hosts.
    pub exchangers: Option<Arc<MailExchangers>>,
    /// Name of the ready queue.
    pub ready_name: String,
    /// The queue's configuration.
    pub queue_config: Arc<QueueConfig>,
    /// The path's configuration.
    pub path: EgressPath,
    /// Names of the sources of the queue's pool, which mail goes by whatever source was asked about; or why nobody knows them.
    pub pool_sources: Result<Vec<String>, PolicyError>,
}

impl Engine {
    /// The way of mail for `domain` by `source`.
    ///
    /// # Errors
    /// The policy's.
    pub async fn resolve_path(&self, domain: &str, source: &str) -> Result<ResolvedPath, PolicyError> {
        let queue_config = self.ask_queue_config(domain).await?;
        let (exchangers, site) = match &queue_config.protocol {
            QueueProtocol::Smtp(smtp) if !smtp.mx_list.is_empty() => {
                match self.destination(&QueueName::parse(domain), &queue_config, TlsDemand::Usual).await {
                    Ok((destination, site)) => (Carriage::exchangers(&destination), site),
                    Err(_) => (None, domain.to_owned()),
                }
            }
            QueueProtocol::Smtp(_) => match self.exchangers_of(domain).await {
                Some(exchangers) => {
                    let site = exchangers.site_name().to_owned();
                    (Some(exchangers), site)
                }
                None => (None, domain.to_owned()),
            },
            _ => (None, domain.to_owned()),
        };
        let path = self.path(domain, source, &site).await?;
        let ready_name = format!("{source}->{site}@{}", suffix(&queue_config.protocol));
        let pool = self.pool(queue_config.egress_pool()).await;
        let pool_sources = pool.map(|pool| pool.entries.into_iter().map(|entry| entry.name).collect());
        Ok(ResolvedPath { exchangers, ready_name, queue_config, path, pool_sources })
    }

    async fn exchangers_of(&self, domain: &str) -> Option<Arc<MailExchangers>> {
        let parsed = RoutingDomain::parse(domain).ok()?;
        self.mx.resolve_site(&parsed).await.ok()
    }
}
