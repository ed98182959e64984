//! The clients of a listener: requests in, answers out, until they go.
//!
//! Each has its time for the head of a request, the first one and every other: who says nothing, or says it letter by letter, is let
//! go. What an answer takes, and a content, is for those who give and read it to bound: events are streamed for days.

use crate::socket::{Connection, Socket};
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;
use tower::{Service, ServiceExt as _};

/// Serves all clients of a socket until it is `over`; returns when the last one has the answer to what he asked by then. `head_max` is
/// how long a client may take for the head of his next request, and so how long he may ask nothing.
pub(crate) async fn serve<S>(mut socket: Socket, answers: S, over: impl Future<Output = ()>, head_max: Duration)
where
    S: Service<Request, Response = Response, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    // Each client has a receiver: it hears that it is over, and is waited for until it is gone.
    let (tell, told) = watch::channel(());
    let mut over = pin!(over);
    loop {
        let connection = tokio::select! {
            connection = socket.accept() => connection,
            () = &mut over => break,
        };
        tokio::spawn(serve_one(connection, answers.clone(), told.clone(), head_max));
    }
    drop((socket, told));
    tell.send_replace(());
    tell.closed().await;
}

async fn serve_one<S>(connection: Connection, answers: S, mut over: watch::Receiver<()>, head_max: Duration)
where
    S: Service<Request, Response = Response, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    let Connection { stream, peer, mut crowded } = connection;
    let answers = answers.map_request(move |request: hyper::Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(peer));
        request
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(head_max);
    let served = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(answers)).with_upgrades();
    let mut served = pin!(served);
    // Who has just come is not told to go before he could ask.
    let makes_room = async {
        sleep(TIME_OF_NEWCOMERS).await;
        crowded.changed().await
    };
    let early = tokio::select! {
        // What has come by then is read.
        biased;
        ended = &mut served => Some(ended),
        // The sender is there as long as anybody is waited for.
        _ = over.changed() => None,
        Ok(()) = makes_room => None,
    };
    let ended = match early {
        Some(ended) => ended,
        // He has the answer to what he asked.
        None => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!("{}: {error}", peer.address);
    }
}

/// How long a client has his place for himself at least, however many wait.
const TIME_OF_NEWCOMERS: Duration = Duration::from_secs(5);
/// The usual time for a head. Most clients give up a connection sooner that they keep and do not use, `kumo.http` after 90 s.
pub(crate) const HEAD_MAX: Duration = Duration::from_secs(120);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::Peer;
    use std::net::SocketAddr;
    use std::sync::Arc;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::oneshot;
    use tokio::task::JoinHandle;
    use tokio::time::{Instant, timeout};

    type Asked = Arc<watch::Sender<Vec<String>>>;

    /// A listener of so many places.
    struct Server {
        address: SocketAddr,
        asked: Asked,
        over: oneshot::Sender<()>,
        served: JoinHandle<()>,
    }

    async fn listen(places: usize, head_max: Duration) -> Server {
        let tcp = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let (address, asked) = (tcp.local_addr().expect("an address"), Asked::new(watch::channel(Vec::new()).0));
        let seen = asked.clone();
        let answers = tower::service_fn(move |request: Request| {
            let ConnectInfo(peer) = request.extensions().get::<ConnectInfo<Peer>>().copied().expect("a peer");
            assert!(!peer.is_secure);
            let path = request.uri().path().to_owned();
            seen.send_modify(|asked| asked.push(path.clone()));
            async move {
                if path == "/slow" {
                    sleep(SLOW).await;
                }
                Ok::<_, Infallible>(Response::new(Body::from("hello")))
            }
        });
        let (over, is_over) = oneshot::channel();
        let is_over = async { _ = is_over.await };
        let served = tokio::spawn(serve(Socket::plain(tcp, places), answers, is_over, head_max));
        Server { address, asked, over, served }
    }

    async fn ask(stream: &mut TcpStream, path: &str) {
        let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("writes");
        let mut octets = Vec::new();
        while !octets.ends_with(b"hello") {
            assert!(stream.read_buf(&mut octets).await.expect("reads") > 0, "no answer");
        }
    }

    #[tokio::test]
    async fn who_takes_too_long_to_ask_is_let_go() {
        let Server { address, asked, .. } = &listen(16, HEAD).await;
        for begun in ["", "GET / HTTP/1.1\r\nHo", "GET /before HTTP/1.1\r\nHost: h\r\n\r\nGET /"] {
            let (since, mut stream) = (Instant::now(), TcpStream::connect(address).await.expect("connects"));
            stream.write_all(begun.as_bytes()).await.expect("writes");
            let mut said = Vec::new();
            timeout(LATER, stream.read_to_end(&mut said)).await.expect("let go").expect("reads");
            assert!(since.elapsed() >= HEAD, "he has his time");
            assert_eq!(said.ends_with(b"hello"), begun.contains("before"), "{begun}");
        }
        assert_eq!(*asked.borrow(), ["/before"]);
        // An answer has its own time.
        ask(&mut TcpStream::connect(address).await.expect("connects"), "/slow").await;
    }

    #[tokio::test]
    async fn beyond_the_places_clients_wait_and_who_asks_nothing_makes_room() {
        let Server { address, asked, .. } = &listen(1, LATER).await;
        let mut first = TcpStream::connect(address).await.expect("connects");
        first.write_all(b"GET /slow HTTP/1.1\r\nHost: h\r\n\r\n").await.expect("writes");
        let mut second = TcpStream::connect(address).await.expect("connects");
        timeout(LATER, ask(&mut second, "/second")).await.expect("his turn");
        assert_eq!(*asked.borrow(), ["/slow", "/second"]);
        // The first one had his answer, then he was let go.
        let mut said = Vec::new();
        first.read_to_end(&mut said).await.expect("reads");
        assert!(said.ends_with(b"hello"));
        // One who waits, and another behind him: who has come to his place has time to ask, also when he is slow.
        let mut third = TcpStream::connect(address).await.expect("connects");
        let _fourth = TcpStream::connect(address).await.expect("connects");
        second.read_to_end(&mut said).await.expect("reads");
        sleep(SLOW * 2).await;
        timeout(LATER, ask(&mut third, "/third")).await.expect("his turn");
    }

    #[tokio::test]
    async fn it_is_over_when_everybody_has_his_answer() {
        let Server { address, asked, over, served } = listen(16, LATER).await;
        let mut idle = TcpStream::connect(address).await.expect("connects");
        let mut asks = TcpStream::connect(address).await.expect("connects");
        ask(&mut idle, "/idle").await;
        asks.write_all(b"GET /slow HTTP/1.1\r\nHost: h\r\n\r\n").await.expect("writes");
        let mut heard = asked.subscribe();
        timeout(LATER, heard.wait_for(|asked| asked.len() == 2)).await.expect("heard").expect("served");
        over.send(()).expect("it is served");
        let mut said = Vec::new();
        asks.read_to_end(&mut said).await.expect("reads");
        assert!(said.ends_with(b"hello"), "he asked before");
        timeout(LATER, served).await.expect("it is over").expect("no panic");
        said.clear();
        idle.read_to_end(&mut said).await.expect("reads");
        assert!(said.is_empty());
    }

    const HEAD: Duration = Duration::from_millis(200);
    const SLOW: Duration = Duration::from_millis(600);
    const LATER: Duration = Duration::from_secs(30);
}
