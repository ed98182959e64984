//! The file of standing orders beside the spool: what operators ordered is in force again after a restart.
//!
//! One small JSON file, replaced whole: written beside, synced, renamed, its directory synced; so a crash leaves
//! the old list or the new one. Orders are few. A file that does not read keeps the program from starting:
//! mail that an operator held back must not leave because a list was lost.

use crate::StoreError;
use clock::WallTime;
use message::MessageId;
use queue::{Action, Change, Criteria, Order, OrderId, Rebinding};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The file, by its place.
#[derive(Clone, Debug)]
pub struct OrdersFile {
    dir: PathBuf,
}

/// What is in it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u32,
    orders: Vec<StoredOrder>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredOrder {
    /// 32 hexadecimal digits.
    id: String,
    action: StoredAction,
    reason: String,
    /// Microseconds since 1970.
    given: i64,
    expires: i64,
    #[serde(default)]
    suppress_logging: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum StoredAction {
    Suspend(StoredCriteria),
    Bounce(StoredCriteria),
    Hold(StoredCriteria),
    Flush(StoredCriteria),
    Rebind {
        criteria: StoredCriteria,
        data: BTreeMap<String, String>,
        always_flush: bool,
        #[serde(default)]
        asks_policy: bool,
    },
    Xfer {
        criteria: StoredCriteria,
        target: String,
    },
    CancelXfer(StoredCriteria),
    /// Beside the one before, which programs of before know.
    CancelHandedOver(StoredCriteria),
    SuspendReady {
        name: String,
    },
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct StoredCriteria {
    #[serde(skip_serializing_if = "Option::is_none")]
    campaign: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    domain: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    routing_domain: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    queue_names: Vec<String>,
    /// 32 hexadecimal digits each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    messages: Vec<String>,
}

impl OrdersFile {
    /// The file in a spool's directory, and the orders in it.
    ///
    /// # Errors
    /// [`StoreError::Io`] for a file that cannot be read or is not a list of orders. One that is not there is an empty list.
    pub fn open(dir: &Path) -> Result<(OrdersFile, Vec<Order>), StoreError> {
        let file = OrdersFile { dir: dir.to_owned() };
        let path = file.path();
        let text = match fs::read_to_string(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok((file, Vec::new())),
            text => text.map_err(StoreError::io(&path, READ))?,
        };
        let orders = parse(&text).map_err(StoreError::io(&path, READ))?;
        Ok((file, orders))
    }

    /// Replaces the list. Blocks until it is on the disk.
    ///
    /// # Errors
    /// The operating system's; the old list is in force then.
    pub fn write(&self, orders: &[&Order]) -> io::Result<()> {
        let stored = Stored { version: VERSION, orders: orders.iter().map(|order| StoredOrder::of(order)).collect() };
        let new = self.dir.join(NEW);
        let mut file = File::create(&new)?;
        file.write_all(&serde_json::to_vec_pretty(&stored)?)?;
        file.sync_all()?;
        fs::rename(&new, self.path())?;
        File::open(&self.dir)?.sync_all()
    }

    fn path(&self) -> PathBuf {
        self.dir.join(NAME)
    }
}

fn parse(text: &str) -> io::Result<Vec<Order>> {
    let stored: Stored = serde_json::from_str(text)?;
    if stored.version != VERSION {
        let why = format!("version {}: this program reads version {VERSION}", stored.version);
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    stored.orders.into_iter().map(StoredOrder::order).collect()
}

impl StoredOrder {
    fn of(order: &Order) -> StoredOrder {
        let criteria = |c: &Criteria| {
            let Criteria { campaign, tenant, domain, routing_domain, queue_names, messages } = c.clone();
            let messages = messages.iter().map(MessageId::to_string).collect();
            let queue_names = queue_names.into_iter().collect();
            StoredCriteria { campaign, tenant, domain, routing_domain, queue_names, messages }
        };
        StoredOrder {
            id: format!("{:032x}", u128::from_be_bytes(order.id.0)),
            action: match &order.action {
                Action::Suspend(c) => StoredAction::Suspend(criteria(c)),
                Action::Bounce(c) => StoredAction::Bounce(criteria(c)),
                Action::Hold(c) => StoredAction::Hold(criteria(c)),
                Action::Flush(c) => StoredAction::Flush(criteria(c)),
                Action::Rebind(rebinding) => StoredAction::rebinding(rebinding, criteria(&rebinding.criteria)),
                Action::SuspendReady(name) => StoredAction::SuspendReady { name: name.clone() },
            },
            reason: order.reason.clone(),
            given: order.given.unix_micros(),
            expires: order.expires.unix_micros(),
            suppress_logging: order.suppress_logging,
        }
    }

    fn order(self) -> io::Result<Order> {
        let criteria = |c: StoredCriteria| -> io::Result<Criteria> {
            let StoredCriteria { campaign, tenant, domain, routing_domain, queue_names, messages } = c;
            let messages = messages.iter().map(|id| id.parse().map_err(|_| bad_id(id))).collect::<io::Result<_>>()?;
            let queue_names = queue_names.into_iter().collect();
            // As they are given by now: whoever gives one again gives the same.
            let [domain, routing_domain] =
                [domain, routing_domain].map(|name| name.map(|name| name.to_ascii_lowercase()));
            Ok(Criteria { campaign, tenant, domain, routing_domain, queue_names, messages })
        };
        let id = u128::from_str_radix(&self.id, 16).map_err(|_| bad_id(&self.id))?;
        Ok(Order {
            id: OrderId(id.to_be_bytes()),
            action: match self.action {
                StoredAction::Suspend(c) => Action::Suspend(criteria(c)?),
                StoredAction::Bounce(c) => Action::Bounce(criteria(c)?),
                StoredAction::Hold(c) => Action::Hold(criteria(c)?),
                StoredAction::Flush(c) => Action::Flush(criteria(c)?),
                StoredAction::Rebind { criteria: which, data, always_flush, asks_policy } => {
                    let change = if asks_policy { Change::Ask(data) } else { Change::Set(data) };
                    Action::Rebind(Rebinding { criteria: criteria(which)?, change, always_flush })
                }
                StoredAction::Xfer { criteria: which, target } => rebind(criteria(which)?, Change::Xfer(target)),
                StoredAction::CancelXfer(which) => rebind(criteria(which)?, Change::CancelXfer { node_is_gone: false }),
                StoredAction::CancelHandedOver(which) => {
                    rebind(criteria(which)?, Change::CancelXfer { node_is_gone: true })
                }
                StoredAction::SuspendReady { name } => Action::SuspendReady(name),
            },
            reason: self.reason,
            given: WallTime::from_unix_micros(self.given),
            expires: WallTime::from_unix_micros(self.expires),
            suppress_logging: self.suppress_logging,
            survives_restart: true,
        })
    }
}

impl StoredAction {
    fn rebinding(Rebinding { change, always_flush, .. }: &Rebinding, criteria: StoredCriteria) -> StoredAction {
        let always_flush = *always_flush;
        match change.clone() {
            Change::Set(data) => StoredAction::Rebind { criteria, data, always_flush, asks_policy: false },
            Change::Ask(data) => StoredAction::Rebind { criteria, data, always_flush, asks_policy: true },
            Change::Xfer(target) => StoredAction::Xfer { criteria, target },
            Change::CancelXfer { node_is_gone: false } => StoredAction::CancelXfer(criteria),
            Change::CancelXfer { node_is_gone: true } => StoredAction::CancelHandedOver(criteria),
        }
    }
}

/// A transfer, or the end of one: the queue is always another.
fn rebind(criteria: Criteria, change: Change) -> Action {
    Action::Rebind(Rebinding { criteria, change, always_flush: false })
}

fn bad_id(id: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{id:?}: expected 32 hexadecimal digits"))
}

/// The file's name in the spool's directory.
const NAME: &str = "orders.json";
/// The next list, before it takes the place of the file.
const NEW: &str = "orders.new";
/// What reading is called in errors.
const READ: &str = "read the standing orders (move the file away to start without them)";
/// The version of the file's form.
const VERSION: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn orders() -> Vec<Order> {
        let criteria =
            Criteria { tenant: Some("shop".into()), queue_names: ["a".into()].into(), ..Criteria::default() };
        let ready = "mx->site@smtp_client".to_owned();
        let actions = [
            Action::Suspend(criteria.clone()),
            Action::Bounce(Criteria::default()),
            Action::Flush(criteria),
            Action::Hold(Criteria { messages: [MessageId::from_bytes([7; 16])].into(), ..Criteria::default() }),
            Action::Rebind(Rebinding {
                criteria: Criteria { domain: Some("a.test".into()), ..Criteria::default() },
                change: Change::Set([("queue".to_owned(), "b.test".to_owned())].into()),
                always_flush: true,
            }),
            Action::Rebind(Rebinding {
                criteria: Criteria::default(),
                change: Change::Ask([("why".to_owned(), "test".to_owned())].into()),
                always_flush: false,
            }),
            rebind(Criteria::default(), Change::Xfer("http://b.test:8000".to_owned())),
            rebind(Criteria::default(), Change::CancelXfer { node_is_gone: false }),
            rebind(Criteria::default(), Change::CancelXfer { node_is_gone: true }),
            Action::SuspendReady(ready),
        ];
        let order = |(number, action)| Order {
            id: OrderId([number; 16]),
            action,
            reason: "\"quoted\"\n".into(),
            given: WallTime::from_unix_secs(i64::from(number)),
            expires: WallTime::from_unix_micros(i64::MAX),
            suppress_logging: number == 2,
            survives_restart: true,
        };
        (1..).zip(actions).map(order).collect()
    }

    #[test]
    fn what_is_written_is_read_again() {
        let dir = tempfile::tempdir().expect("a folder");
        let (file, found) = OrdersFile::open(dir.path()).expect("an empty folder");
        assert_eq!(found, []);
        let orders = orders();
        file.write(&orders.iter().collect::<Vec<_>>()).expect("writes");
        assert_eq!(OrdersFile::open(dir.path()).expect("reads").1, orders);
        file.write(&[]).expect("writes");
        assert_eq!(OrdersFile::open(dir.path()).expect("reads").1, []);
    }

    #[test]
    fn what_is_no_list_of_orders_is_refused_with_its_path() {
        let dir = tempfile::tempdir().expect("a folder");
        for text in ["", "{\"version\":2,\"orders\":[]}", "{\"version\":1,\"orders\":[],\"more\":0}"] {
            fs::write(dir.path().join(NAME), text).expect("writes");
            let error = OrdersFile::open(dir.path()).expect_err("no list").to_string();
            assert!(error.contains(NAME) && error.contains("move the file away"), "{error}");
        }
    }
}
