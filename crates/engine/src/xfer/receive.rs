//! The three things another node may ask: keep this, go ahead with it, forget it.
//!
//! Each runs to its end whether or not who asked still listens. Nothing is answered before it is durable.

use crate::engine::Engine;
use crate::pressure::Room;
use crate::recovery::RecoveryState;
use crate::selection::Subject;
use crate::xfer::arrivals::{Absent, Arrival, Found};
use bytes::Bytes;
use message::{Draft, Message, Parcel, ParcelError, Place, Resident, Sealed, Settled};
use policy::{AuthInfo, PolicyError};
use queue::fate::ArrivalFate;
use queue::schedule::{label_for, read_label};
use queue::xfer::{self, Kept, bring_back, set_arrived, set_arriving, take_reason};
use queue::{NULL_QUEUE, QueueName};
use record::RecordType;
use smtp_wire::Reply;
use spool::{Mark, Rewrite, SpoolError};
use std::net::SocketAddr;
use thiserror::Error;

/// Why another node is not served.
#[derive(Debug, Error)]
pub enum XferError {
    /// It is this node.
    #[error("the message comes from this node: expected another")]
    FromHere,
    /// It was asked what another node was to be asked.
    #[error("this is node {0}: expected that to which the message was sent")]
    OtherNode(String),
    /// What was sent.
    #[error("{0}")]
    Parcel(#[from] ParcelError),
    /// No queue can be named from its metadata.
    #[error("{0}")]
    Queue(String),
    /// Policy refused, or failed.
    #[error("{0}")]
    Policy(#[from] PolicyError),
    /// Not now.
    #[error("{0}")]
    Later(String),
    /// The spool.
    #[error("{0}")]
    Spool(#[from] SpoolError),
}

/// Who hands a message over.
#[derive(Clone, Debug)]
pub struct OtherNode {
    /// Where it connects from.
    pub address: SocketAddr,
    /// The listener it connects to.
    pub via: SocketAddr,
    /// Who it has proven to be.
    pub auth: AuthInfo,
}

impl Engine {
    /// Room in memory for a message of another node; asked for before it is read.
    ///
    /// # Errors
    /// [`XferError::Later`] while no new mail is taken.
    pub fn room_for_arrival(&self, octets: u64) -> Result<Room, XferError> {
        self.knows_arrivals()?;
        self.pressure.room_or_reason(octets).map_err(XferError::Later)
    }

    /// Keeps a message of another node, without delivering it; how it is known here. What is kept already is known as before.
    ///
    /// # Errors
    /// See [`XferError`]; nothing is kept then.
    pub async fn keep_arrival(&self, octets: Bytes, room: Room, from: OtherNode) -> Result<Kept, XferError> {
        let engine = self.clone();
        let keeping = async move {
            let kept = engine.keep(octets, from).await;
            drop(room);
            kept
        };
        self.to_its_end(keeping).await
    }

    /// The other node has let a message go: it is delivered from here. It says to which node it speaks, where it knows. What became of
    /// the message, now or before; `None` when nothing is known of it.
    ///
    /// # Errors
    /// [`XferError::OtherNode`], [`XferError::Later`], [`XferError::Spool`]: it is kept as before.
    pub async fn release_arrival(&self, origin: String, node: Option<&str>) -> Result<Option<ArrivalFate>, XferError> {
        self.is_meant(node)?;
        let engine = self.clone();
        self.to_its_end(async move { engine.release(&origin).await }).await
    }

    /// The other node has forgotten these and will not ask again: what became of them need not be known any more.
    ///
    /// # Errors
    /// [`XferError::Later`].
    pub fn forget_arrivals(&self, origins: &[String]) -> Result<(), XferError> {
        self.knows_arrivals()?;
        self.forget_fates(origins);
        Ok(())
    }

    /// The other node keeps a message to itself: it is forgotten here. What became of it, as with
    /// [`release_arrival`](Self::release_arrival).
    ///
    /// # Errors
    /// [`XferError::OtherNode`], [`XferError::Later`], [`XferError::Spool`]: it may be kept as before.
    pub async fn drop_arrival(&self, origin: String, node: Option<&str>) -> Result<Option<ArrivalFate>, XferError> {
        self.is_meant(node)?;
        let engine = self.clone();
        self.to_its_end(async move { engine.remove(&origin).await }).await
    }

    /// Messages of other nodes that wait for their senders.
    pub fn arrivals(&self) -> Vec<Arrival> {
        self.arrivals.list()
    }

    async fn remove(&self, origin: &str) -> Result<Option<ArrivalFate>, XferError> {
        self.knows_arrivals()?;
        let (message, hand) = match self.arrivals.take(origin) {
            Ok(taken) => taken,
            Err(absent) => return answered(origin, absent),
        };
        tracing::info!("arrival {origin} is dropped ({})", message.id);
        self.note_fate(origin, ArrivalFate::Dropped).await?;
        self.spool.mark(Mark::Removed { id: message.id });
        // Whoever asks again after a failure is not told that it was done before.
        self.spool.flush().await?;
        hand.leave(None);
        Ok(Some(ArrivalFate::Dropped))
    }

    async fn keep(&self, octets: Bytes, from: OtherNode) -> Result<Kept, XferError> {
        self.knows_arrivals()?;
        let fingerprint = format!("{:x}-{:08x}", octets.len(), crc32fast::hash(&octets));
        let parcel = Parcel::decode(octets)?;
        let node = uuid::Uuid::from_bytes(parcel.node);
        if node == self.settings.node_id {
            return Err(XferError::FromHere);
        }
        let origin = xfer::origin(&node.to_string(), parcel.id, &fingerprint);
        let id = match self.arrivals.begin(&origin) {
            Found::Message(id) => id,
            Found::InWork => return Err(in_work(&origin)),
            Found::Full => return Err(XferError::Later(FULL.to_owned())),
            Found::Nothing(hand) => {
                let message = self.store(parcel, &origin, from).await?;
                let (id, is_here) = (message.id, message.place.is_some());
                if !is_here {
                    self.note_fate(&origin, ArrivalFate::Released(id)).await?;
                }
                hand.leave(is_here.then_some(message));
                id
            }
        };
        Ok(Kept { id: id.to_string(), node: self.node_id_text.to_string(), origin })
    }

    /// Everything that can fail, then the spool. A message for the null queue has no place then.
    async fn store(&self, parcel: Parcel, origin: &str, from: OtherNode) -> Result<Message, XferError> {
        let Parcel { envelope, mut meta, head, body, .. } = parcel;
        let now = self.clock.wall();
        let saved = bring_back(&mut meta);
        take_reason(&mut meta);
        let OtherNode { address, via, auth } = from;
        meta.set("xfer_from", address.to_string());
        meta.set("xfer_via", via.to_string());
        meta.set("xfer_auth", auth.summary());
        let raw = [&head[..], &body[..]].concat().into();
        let due = saved.map_or(now, |saved| saved.due);
        let mut draft = Draft::new(self.next_id(), envelope, meta, raw, due);
        draft.attempts = saved.map_or(0, |saved| saved.attempts);
        let asked = self.answer_in_time(self.policy.xfer_message_received(draft, auth)).await;
        let mut draft = asked.ok_or_else(no_answer)??;
        let queue = QueueName::text_for(&draft.envelope, &draft.meta).map_err(|e| XferError::Queue(e.to_string()))?;
        if queue == NULL_QUEUE {
            return Ok(Message::resident(draft.seal(), None));
        }
        self.answer_in_time(Box::pin(self.configure(&queue))).await.ok_or_else(no_answer)??;
        let attempts = draft.attempts;
        set_arriving(&mut draft.meta, origin, attempts);
        let sealed = draft.seal();
        let room = self.pressure.room_to_append(sealed.body.len() as u64);
        let appended = self.spool.append(vec![vec![sealed]]).await;
        drop(room);
        let kept = appended?;
        let durable = kept.sealed.into_iter().zip(kept.durable).next();
        let (sealed, durable) = durable.ok_or_else(|| XferError::Later("the spool answered nothing".to_owned()))?;
        let mut message = Message::resident(sealed, Some(durable.place()));
        message.release();
        Ok(message)
    }

    async fn release(&self, origin: &str) -> Result<Option<ArrivalFate>, XferError> {
        self.knows_arrivals()?;
        let (message, hand) = match self.arrivals.take(origin) {
            Ok(taken) => taken,
            Err(absent) => return answered(origin, absent),
        };
        let (id, place) = (message.id, message.place.unwrap_or(NOWHERE));
        let room = self.pressure.room_to_load(u64::from(message.size)).await;
        let fate = match self.spool.load(id, place).await {
            Ok(resident) => self.let_in(origin, message, resident).await?,
            Err(error @ (SpoolError::NoSuchMessage { .. } | SpoolError::Damaged { .. })) => {
                self.note_fate(origin, ArrivalFate::Dropped).await?;
                tracing::error!("arrival {origin} ({id}) does not read, its sender has it again: {error}");
                if matches!(error, SpoolError::Damaged { .. }) {
                    self.spool.give_up(id);
                    self.metrics.spool_set_aside.inc();
                }
                ArrivalFate::Dropped
            }
            Err(error) => return Err(error.into()),
        };
        drop(room);
        hand.leave(None);
        Ok(Some(fate))
    }

    /// Writes a message anew that has arrived, and puts it into its queue.
    async fn let_in(&self, origin: &str, mut message: Message, resident: Resident) -> Result<ArrivalFate, XferError> {
        let Resident { envelope, mut meta, head, body } = resident;
        message.attempts = set_arrived(&mut meta);
        let label = label_for(&envelope, &meta).map_err(|e| XferError::Queue(e.to_string()))?;
        let fate = ArrivalFate::Released(message.id);
        self.note_fate(origin, fate).await?;
        let resident = Resident { envelope, meta, head, body };
        let Resident { envelope, meta, head, body } = resident.clone();
        let sealed = Sealed { id: message.id, envelope, meta, head, body, due: message.due };
        let rewrite = Rewrite { sealed, attempts: message.attempts, settled: Settled::default() };
        message.place = Some(self.spool.rewrite(rewrite).await?);
        message.resident = Some(Box::new(resident));
        let belonging = read_label(&label);
        self.log_arrival(&message, belonging.queue);
        self.with_queue(|q, now| q.admit_to(now, belonging, message));
        Ok(fate)
    }

    fn log_arrival(&self, message: &Message, queue: &str) {
        let Some(resident) = message.resident.as_deref().filter(|_| !self.logs_nothing()) else { return };
        let reply = Reply { code: 250, enhanced: None, text: String::new() };
        let recipients: Vec<u16> = message.pending().collect();
        let mut record = self.record(RecordType::XferIn, (message, resident), queue, &recipients, &reply);
        record.delivery_protocol = Some("xfer".into());
        self.log(record, Subject::of(message, resident));
    }

    fn is_meant(&self, node: Option<&str>) -> Result<(), XferError> {
        match node.is_none_or(|node| *node == *self.node_id_text) {
            true => Ok(()),
            false => Err(XferError::OtherNode(self.node_id_text.to_string())),
        }
    }

    /// Whether what was kept before this run is known.
    fn knows_arrivals(&self) -> Result<(), XferError> {
        if !self.is_serving() {
            return Err(XferError::Later("shutting down".to_owned()));
        }
        match self.recovery_state() {
            RecoveryState::Done => Ok(()),
            _ => Err(XferError::Later("waiting for spool startup".to_owned())),
        }
    }

    /// Runs work as a task of the engine.
    async fn to_its_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, XferError>> + Send + 'static,
    ) -> Result<T, XferError> {
        let (tell, told) = tokio::sync::oneshot::channel();
        self.sessions.spawn(async move {
            // Nobody listens any more: what was done stays done.
            let _: Result<(), _> = tell.send(work.await);
        });
        told.await.unwrap_or_else(|_| Err(XferError::Later("the request could not be carried out".to_owned())))
    }
}

fn no_answer() -> XferError {
    XferError::Later("policy did not answer".to_owned())
}

/// What is said of an arrival that is not here.
fn answered(origin: &str, absent: Absent) -> Result<Option<ArrivalFate>, XferError> {
    match absent {
        Absent::InWork => Err(in_work(origin)),
        Absent::Gone(fate) => Ok(Some(fate)),
        Absent::Unknown => Ok(None),
    }
}

fn in_work(origin: &str) -> XferError {
    XferError::Later(format!("{origin} is being worked on"))
}

const FULL: &str = "too many messages wait for their senders, or were settled a short time ago";
/// No place: the spool looks the message up by its id.
const NOWHERE: Place = Place { segment: 0, offset: 0, index: 0 };
