//! The sockets of listeners: bound before privileges are dropped, served once all are known to be sound, and opened and closed
//! as a policy that is read again wants them.
//!
//! In: what policy asks to be started. Out: SMTP and HTTP services, each on its socket until it is closed or the program ends.
//! A listener is known by its address, and those that stay keep their clients. The options of an SMTP listener are the engine's to
//! change; an HTTP listener with other options, or with a certificate, which may have been renewed, is told here what it is to be.

use crate::choices::{self, Choice};
use crate::handover::{Inherited, Kept, name_of};
use crate::privileges::{self, Files};
use admin::{Change, HttpService};
use anyhow::{Context, bail};
use config::{EsmtpListener, HostPort, HttpListener};
use engine::{Engine, EsmtpService, Sockets, SocketsChange};
use net::listen;
use policy::{Interest, Startup};
use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// What may need root's rights is done: sockets are bound, limits raised. Nothing is served yet.
pub struct Bound {
    smtp: Vec<TcpListener>,
    http: Vec<TcpListener>,
    /// How many files may be open.
    pub files: Files,
}

impl Bound {
    /// Binds every listener of `startup`, unless its socket was handed over, and raises the limit of open files.
    ///
    /// # Errors
    /// An address is none, is in use, or is that of two.
    pub fn new(startup: &Startup) -> anyhow::Result<Bound> {
        check(startup)?;
        let mut inherited = Inherited::found()?;
        let smtp = startup.esmtp_listeners.iter().map(|listener| (SMTP, &listener.listen));
        let http = startup.http_listeners.iter().map(|listener| (HTTP, &listener.listen));
        let taken: Vec<_> = smtp.chain(http).map(|(protocol, at)| (at, inherited.take(protocol, at))).collect();
        // What nobody listens to any more may stand where others are to.
        drop(inherited);
        let sockets = taken.into_iter().map(|(at, socket)| socket.map_or_else(|| bind(at), Ok));
        let mut smtp = sockets.collect::<anyhow::Result<Vec<TcpListener>>>()?;
        let http = smtp.split_off(startup.esmtp_listeners.len());
        Ok(Bound { smtp, http, files: privileges::raise_file_limit()? })
    }
}

/// The socket address of a `listen` option.
///
/// # Errors
/// It is none.
pub fn address(at: &HostPort) -> anyhow::Result<SocketAddr> {
    match at.socket_addr() {
        Some(address) => Ok(address),
        None => Ok(listen::parse_address(&format!("{}:{}", at.host, at.port))?),
    }
}

/// Whether the listeners of a policy can be had beside each other. Nothing is bound.
///
/// # Errors
/// An address is none; two would have one port of one address.
pub fn check(startup: &Startup) -> anyhow::Result<()> {
    let smtp = startup.esmtp_listeners.iter().map(|listener| ("start_esmtp_listener", &listener.listen));
    let http = startup.http_listeners.iter().map(|listener| ("start_http_listener", &listener.listen));
    let mut seen: Vec<(SocketAddr, &HostPort)> = Vec::new();
    for (call, at) in smtp.chain(http) {
        let wanted = address(at).with_context(|| call)?;
        if let Some((_, other)) = seen.iter().find(|(other, _)| collide(*other, wanted)) {
            bail!("{call}: listen: {at}: there is a listener at {other}: expected a port or an address of its own");
        }
        seen.push((wanted, at));
    }
    Ok(())
}

/// Whether the two cannot be bound at once. What `[::]` takes of IPv4 is for the system to say.
fn collide(one: SocketAddr, other: SocketAddr) -> bool {
    let has_all = one.ip().is_unspecified() || other.ip().is_unspecified();
    let is_one_family = one.is_ipv4() == other.is_ipv4();
    one.port() != 0 && one.port() == other.port() && (one.ip() == other.ip() || has_all && is_one_family)
}

/// Tells tooling where a listener is; the line ends with the address.
pub fn announce(protocol: &str, socket: &tokio::net::TcpListener) {
    match socket.local_addr() {
        Ok(address) => eprintln!("{protocol} listener on {address}"),
        Err(error) => tracing::error!("the address of a listener for {protocol}: {error}"),
    }
}

/// The listeners there are.
pub struct Listeners {
    open: Arc<Mutex<Vec<Open>>>,
    files: Files,
    runtime: Handle,
    /// What was said last of how many connections there may be.
    said: Mutex<Option<Choice>>,
}

/// The sockets of the listeners there are, to be handed over.
#[derive(Clone)]
pub struct Held(Arc<Mutex<Vec<Open>>>);

/// One of them; it ends when this does. One for HTTP tells who asks how a program ends, to the end of that.
struct Open {
    at: HostPort,
    /// What an HTTP listener is.
    http: Option<Http>,
    /// A second handle of its socket, until the program ends.
    second: Option<TcpListener>,
    /// Gone, it ends.
    open: Option<oneshot::Sender<()>>,
    /// It ends when all it was asked is answered.
    task: Option<JoinHandle<()>>,
}

/// An HTTP listener that is served: its options, and what changes it.
struct Http(Box<HttpListener>, Change);

/// One that is ready to be served.
struct Ready {
    at: HostPort,
    service: Service,
    socket: tokio::net::TcpListener,
    second: TcpListener,
}

enum Service {
    Smtp(EsmtpService),
    /// With its options.
    Http(Box<HttpListener>, HttpService),
}

/// What becomes of those there are, by their place, and those to come.
#[derive(Default)]
struct Plan {
    kept: Vec<usize>,
    /// Of those kept.
    changed: Vec<(usize, Box<HttpListener>, HttpService)>,
    new: Vec<Ready>,
}

impl Listeners {
    /// Serves on the sockets, once all listeners are known to be sound.
    ///
    /// # Errors
    /// A certificate cannot be used.
    pub async fn open(engine: &Engine, startup: &Startup, bound: Bound) -> anyhow::Result<Listeners> {
        let mut ready = Vec::new();
        for (options, socket) in startup.esmtp_listeners.iter().zip(bound.smtp) {
            ready.push(Ready::smtp(engine, options.clone(), engine.interest(), socket)?);
        }
        for (options, socket) in startup.http_listeners.iter().zip(bound.http) {
            ready.push(Ready::http(engine, options, socket)?);
        }
        engine.watch_pressure().await;
        let runtime = Handle::current();
        let open: Vec<Open> = ready.into_iter().map(|ready| ready.serve(&runtime)).collect();
        let open = Arc::new(Mutex::new(open));
        let (draining, held) = (engine.clone(), open.clone());
        runtime.spawn(async move {
            draining.draining().await;
            // The second handles go, so that nobody connects to a program that ends.
            held.lock().unwrap_or_else(PoisonError::into_inner).iter_mut().for_each(|open| open.second = None);
        });
        Ok(Listeners { open, files: bound.files, runtime, said: Mutex::default() })
    }

    /// Their sockets.
    pub fn held(&self) -> Held {
        Held(self.open.clone())
    }

    fn plan(&self, engine: &Engine, startup: &Startup, interest: Interest) -> anyhow::Result<Plan> {
        check(startup)?;
        let _entered = self.runtime.enter();
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let mut plan = Plan::default();
        // In order, so that two on ports of the system's choice are told apart.
        let find = |plan: &Plan, is_it: &dyn Fn(&Open) -> bool| {
            (0..open.len()).find(|place| !plan.kept.contains(place) && is_it(&open[*place]))
        };
        for options in &startup.esmtp_listeners {
            let is_it = |open: &Open| open.at == options.listen && open.http.is_none();
            match find(&plan, &is_it) {
                Some(place) => plan.kept.push(place),
                None => {
                    let socket = bind(&options.listen)?;
                    plan.new.push(Ready::smtp(engine, options.clone(), interest, socket)?);
                }
            }
        }
        for options in &startup.http_listeners {
            let is_it = |open: &Open| open.at == options.listen && open.http.is_some();
            let Some(place) = find(&plan, &is_it) else {
                plan.new.push(Ready::http(engine, options, bind(&options.listen)?)?);
                continue;
            };
            plan.kept.push(place);
            let is_same = open[place].http.as_ref().is_some_and(|Http(before, _)| **before == *options);
            if !is_same || options.use_tls {
                let service = HttpService::new(engine.clone(), options)?;
                plan.changed.push((place, Box::new(options.clone()), service));
            }
        }
        Ok(plan)
    }
}

impl Held {
    /// Their addresses.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sockets = open.iter().filter_map(|open| open.second.as_ref());
        sockets.filter_map(|socket| socket.local_addr().ok()).collect()
    }

    /// Those for HTTP: they stay open though the listeners end, and nobody is accepted any more: who comes now is for the next program.
    /// By then what was asked is answered, if that does not take long.
    pub async fn take_http(&self) -> Vec<Kept> {
        let (kept, tasks): (Vec<_>, Vec<_>) = self.take_if(|open| open.http.is_some()).into_iter().unzip();
        all_answered(tasks).await;
        kept
    }

    /// All that are left, in the same way, but for the waiting.
    pub fn take(&self) -> Vec<Kept> {
        self.take_if(|_| true).into_iter().map(|(kept, _)| kept).collect()
    }

    fn take_if(&self, is_it: impl Fn(&Open) -> bool) -> Vec<(Kept, JoinHandle<()>)> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let named = open.iter_mut().filter(|open| is_it(open)).filter_map(|open| {
            let protocol = if open.http.is_some() { HTTP } else { SMTP };
            open.open = None;
            Some((Kept { name: name_of(protocol, &open.at), socket: open.second.take()? }, open.task.take()?))
        });
        named.collect()
    }
}

impl Sockets for Listeners {
    fn share_files(&self, startup: &mut Startup) {
        let choice = choices::connections(&mut startup.esmtp_listeners, self.files);
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        // Each change of what shapes mail comes by here too.
        if *said != choice {
            choices::say(choice.as_slice());
            *said = choice;
        }
    }

    fn prepare(&self, engine: &Engine, startup: &Startup, interest: Interest) -> Result<SocketsChange, String> {
        let plan = self.plan(engine, startup, interest).map_err(|error| cli::causes(&error))?;
        let (open, runtime, engine) = (self.open.clone(), self.runtime.clone(), engine.clone());
        Ok(Box::new(move || plan.carry_out(&engine, &open, &runtime)))
    }

    fn answered(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = open.iter_mut().filter(|open| open.http.is_some()).filter_map(|open| {
            open.open = None;
            open.task.take()
        });
        Box::pin(all_answered(ended.collect()))
    }
}

/// Waits until listeners that end have answered what they were asked, if that does not take long.
async fn all_answered(listeners: Vec<JoinHandle<()>>) {
    let answered = async {
        for listener in listeners {
            // One that panicked has ended too, and said so.
            let _: Result<(), _> = listener.await;
        }
    };
    let mut answered = pin!(answered);
    if tokio::time::timeout(ANSWERS_USUAL, &mut answered).await.is_ok() {
        return;
    }
    tracing::info!("waiting for the last answers over HTTP");
    if tokio::time::timeout(ANSWERS_MAX, answered).await.is_err() {
        tracing::warn!("some requests over HTTP were not answered within {ANSWERS_MAX:?}");
    }
}

impl Plan {
    fn carry_out(self, engine: &Engine, open: &Mutex<Vec<Open>>, runtime: &Handle) {
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        // Sockets that were handed over are not served any more.
        if !engine.is_serving() || open.iter().any(|open| open.second.is_none()) {
            return;
        }
        for (place, options, to) in self.changed {
            if let Some(Http(before, change)) = &mut open[place].http {
                change.to(to.current());
                *before = options;
            }
        }
        let mut place = 0..;
        open.retain(|gone| {
            let stays = place.next().is_some_and(|place| self.kept.contains(&place));
            if !stays {
                tracing::info!("the listener on {} is closed", gone.at);
            }
            stays
        });
        open.extend(self.new.into_iter().map(|ready| ready.serve(runtime)));
    }
}

impl Ready {
    fn smtp(engine: &Engine, options: EsmtpListener, interest: Interest, socket: TcpListener) -> anyhow::Result<Ready> {
        let at = options.listen.clone();
        let service = Service::Smtp(EsmtpService::new(engine.clone(), options, interest)?);
        Ready::over(socket, at, service)
    }

    fn http(engine: &Engine, options: &HttpListener, socket: TcpListener) -> anyhow::Result<Ready> {
        let service = Service::Http(Box::new(options.clone()), HttpService::new(engine.clone(), options)?);
        Ready::over(socket, options.listen.clone(), service)
    }

    fn over(socket: TcpListener, at: HostPort, service: Service) -> anyhow::Result<Ready> {
        let second = socket.try_clone().context("a listener's socket")?;
        Ok(Ready { at, service, socket: listen::into_tokio(socket)?, second })
    }

    /// Serves it until what is returned is gone, or the program ends.
    fn serve(self, runtime: &Handle) -> Open {
        let Ready { at, service, socket, second } = self;
        let (open, closed) = oneshot::channel::<()>();
        // Nothing is ever sent: it ends when the sender is gone.
        let closed = async move { _ = closed.await };
        let (http, task) = match service {
            Service::Smtp(service) => {
                announce(SMTP, &socket);
                service.register();
                (None, runtime.spawn(service.serve(socket, closed)))
            }
            Service::Http(options, service) => {
                announce(HTTP, &socket);
                let change = service.current().change();
                (Some(Http(options, change)), runtime.spawn(service.serve(socket, closed)))
            }
        };
        Open { at, http, second: Some(second), open: Some(open), task: Some(task) }
    }
}

/// How long answers are waited for before the program ends, or another takes its place.
const ANSWERS_MAX: Duration = Duration::from_secs(2);
/// What takes longer is said.
const ANSWERS_USUAL: Duration = Duration::from_millis(700);
/// Names of what is listened for.
const SMTP: &str = "smtp";
const HTTP: &str = "http";

/// The socket of a `listen` option.
///
/// # Errors
/// It is no address, or it is in use.
pub fn bind(at: &HostPort) -> anyhow::Result<TcpListener> {
    Ok(listen::bind(address(at)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn two_listeners_have_no_port_in_common() {
        let of = |esmtp: &str, http: &str| {
            let startup = Startup {
                esmtp_listeners: vec![config::parse("start_esmtp_listener", json!({"listen": esmtp})).expect("sound")],
                http_listeners: vec![config::parse("start_http_listener", json!({"listen": http})).expect("sound")],
                ..Startup::default()
            };
            check(&startup).map_err(|error| cli::causes(&error))
        };
        for (one, other) in [
            ("127.0.0.1:8000", "127.0.0.1:8000"),
            ("0.0.0.0:8000", "127.0.0.1:8000"),
            ("[::1]:8000", "[::]:8000"),
            ("127.0.0.1:8000", "localhost:8000"),
        ] {
            let said = of(one, other).expect_err("one port");
            assert!(said.starts_with(&format!("start_http_listener: listen: {other}: there is")), "{said}");
            assert!(said.contains(&format!("a listener at {one}")), "{said}");
        }
        for (one, other) in [
            ("127.0.0.1:8000", "127.0.0.1:8001"),
            ("127.0.0.1:8000", "127.0.0.2:8000"),
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("0.0.0.0:8000", "[::1]:8000"),
        ] {
            of(one, other).unwrap_or_else(|said| panic!("{one} and {other}: {said}"));
        }
    }
}
