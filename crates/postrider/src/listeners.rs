//! The sockets of listeners: bound before privileges are dropped, served once all are known to be sound, and opened and closed
//! as a policy that is read again wants them.
//!
//! In: what policy asks to be started. Out: SMTP and HTTP services, each on its socket until it is closed or the program ends.
//! A listener is known by its address. The options of an SMTP listener are the engine's to change; an HTTP listener with other
//! options, or with a certificate, which may have been renewed, is another service on the same socket, so that nobody who connects
//! in between is refused. Only who is in the middle of a TLS handshake then is cut off.

use crate::choices;
use crate::privileges::{self, Files};
use admin::HttpService;
use anyhow::Context;
use config::{EsmtpListener, HostPort, HttpListener};
use engine::{Engine, EsmtpService, Sockets, SocketsChange};
use net::listen;
use policy::{Interest, Startup};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// What may need root's rights is done: sockets are bound, limits raised. Nothing is served yet.
pub struct Bound {
    smtp: Vec<TcpListener>,
    http: Vec<TcpListener>,
    /// How many files may be open.
    pub files: Files,
}

impl Bound {
    /// Binds every listener of `startup`, and raises the limit of open files.
    ///
    /// # Errors
    /// An address is none, or is in use.
    pub fn new(startup: &Startup) -> anyhow::Result<Bound> {
        Ok(Bound {
            smtp: startup.esmtp_listeners.iter().map(|l| bind(&l.listen)).collect::<Result<_, _>>()?,
            http: startup.http_listeners.iter().map(|l| bind(&l.listen)).collect::<Result<_, _>>()?,
            files: privileges::raise_file_limit()?,
        })
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
}

/// One of them; it ends when this does.
struct Open {
    at: HostPort,
    /// Of an HTTP listener: its options, and a second handle of its socket.
    http: Option<Box<(HttpListener, TcpListener)>>,
    _open: oneshot::Sender<()>,
}

/// One that is ready to be served.
struct Ready {
    at: HostPort,
    service: Service,
    socket: tokio::net::TcpListener,
}

enum Service {
    Smtp(EsmtpService),
    /// With its options, and a second handle of its socket.
    Http(Box<(HttpListener, TcpListener)>, HttpService),
}

/// What becomes of those there are, by their place, and those to come.
#[derive(Default)]
struct Plan {
    kept: Vec<usize>,
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
            held.lock().unwrap_or_else(PoisonError::into_inner).retain(|open| open.http.is_none());
        });
        Ok(Listeners { open, files: bound.files, runtime })
    }

    fn plan(&self, engine: &Engine, startup: &Startup, interest: Interest) -> anyhow::Result<Plan> {
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
        let mut replaced = Vec::new();
        for options in &startup.http_listeners {
            let at = options.listen.clone();
            let there =
                |place: &usize| !plan.kept.contains(place) && !replaced.contains(place) && open[*place].at == at;
            let there = (0..open.len()).filter(there).find_map(|place| Some((place, open[place].http.as_deref()?)));
            let socket = match there {
                Some((place, (before, _))) if before == options && !options.use_tls => {
                    plan.kept.push(place);
                    continue;
                }
                Some((place, (_, socket))) => {
                    replaced.push(place);
                    socket.try_clone().context("a listener's socket")?
                }
                None => bind(&at)?,
            };
            plan.new.push(Ready::http(engine, options, socket)?);
        }
        Ok(plan)
    }
}

impl Sockets for Listeners {
    fn share_files(&self, startup: &mut Startup) {
        let choice = choices::connections(&mut startup.esmtp_listeners, self.files);
        choice.into_iter().for_each(|choice| choices::say(&[choice]));
    }

    fn prepare(&self, engine: &Engine, startup: &Startup, interest: Interest) -> Result<SocketsChange, String> {
        let plan = self.plan(engine, startup, interest).map_err(|error| format!("{error:#}"))?;
        let (open, runtime, engine) = (self.open.clone(), self.runtime.clone(), engine.clone());
        Ok(Box::new(move || plan.carry_out(&engine, &open, &runtime)))
    }
}

impl Plan {
    fn carry_out(self, engine: &Engine, open: &Mutex<Vec<Open>>, runtime: &Handle) {
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        if !engine.is_serving() {
            return;
        }
        let mut place = 0..;
        open.retain(|gone| {
            let stays = place.next().is_some_and(|place| self.kept.contains(&place));
            if !stays && self.new.iter().all(|new| new.at != gone.at) {
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
        Ok(Ready { at, service, socket: listen::into_tokio(socket)? })
    }

    fn http(engine: &Engine, options: &HttpListener, socket: TcpListener) -> anyhow::Result<Ready> {
        let service = HttpService::new(engine.clone(), options)?;
        let second = socket.try_clone().context("a listener's socket")?;
        let service = Service::Http(Box::new((options.clone(), second)), service);
        Ok(Ready { at: options.listen.clone(), service, socket: listen::into_tokio(socket)? })
    }

    /// Serves it until what is returned is gone, or the program ends.
    fn serve(self, runtime: &Handle) -> Open {
        let Ready { at, service, socket } = self;
        let (open, closed) = oneshot::channel::<()>();
        // Nothing is ever sent: it ends when the sender is gone.
        let closed = async move { _ = closed.await };
        let http = match service {
            Service::Smtp(service) => {
                announce("smtp", &socket);
                service.register();
                runtime.spawn(service.serve(socket, closed));
                None
            }
            Service::Http(options, service) => {
                announce("http", &socket);
                runtime.spawn(service.serve(socket, closed));
                Some(options)
            }
        };
        Open { at, http, _open: open }
    }
}

fn bind(at: &HostPort) -> anyhow::Result<TcpListener> {
    Ok(listen::bind(address(at)?)?)
}
