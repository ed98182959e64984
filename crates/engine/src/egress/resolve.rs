//! Where mail for a domain would go, without any: for operators who ask.
//!
//! Asks policy and DNS what `routing` asks them, and leaves no trace: no queue is made, nothing is remembered but what
//! caches remember. A domain that DNS does not resolve is its own site, so that its path can be looked at all the same.

use crate::engine::Engine;
use config::{EgressPath, QueueConfig, QueueProtocol};
use policy::PolicyError;
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
                match self.destination(domain, &queue_config).await {
                    Ok((destination, site)) => (destination.hosts(), site),
                    Err(_) => (None, domain.to_owned()),
                }
            }
            _ => match self.exchangers_of(domain).await {
                Some(exchangers) => {
                    let site = exchangers.site_name().to_owned();
                    (Some(exchangers), site)
                }
                None => (None, domain.to_owned()),
            },
        };
        let path = self.path(domain, source, &site).await?;
        let ready_name = format!("{source}->{site}@{}", protocol(&queue_config.protocol));
        Ok(ResolvedPath { exchangers, ready_name, queue_config, path })
    }

    async fn exchangers_of(&self, domain: &str) -> Option<Arc<MailExchangers>> {
        let parsed = RoutingDomain::parse(domain).ok()?;
        self.mx.resolve_site(&parsed).await.ok()
    }
}

/// The last part of a ready queue's name (KumoMTA behaviour).
fn protocol(protocol: &QueueProtocol) -> String {
    match protocol {
        QueueProtocol::Smtp(_) => "smtp_client".to_owned(),
        QueueProtocol::Maildir(maildir) => format!("maildir:{}", maildir.maildir_path),
        QueueProtocol::CustomLua(lua) => format!("lua:{}", lua.constructor),
        QueueProtocol::Xfer(_) => "xfer".to_owned(),
        QueueProtocol::Null => "null".to_owned(),
        QueueProtocol::HttpInjectionGenerator => "httpinject:generator".to_owned(),
        QueueProtocol::DeferredSmtpInjection => "defersmtpinject".to_owned(),
    }
}
