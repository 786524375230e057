//! Connections: accepting them, bounding them, and closing those whose clients do not read.

pub(crate) mod pace;
pub(crate) mod stalled;

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use songline_rpc::port::Conn;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::Semaphore;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::http::api::Api;
use crate::http::passed::{self, Peer};
use crate::server::Server;

use pace::Paced;
use stalled::Stalled;

/// Number of connections that one task may have at a time.
const TASK_CONNECTIONS_MAX: usize = 64;

/// Bounds of a listener.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Number of connections per client address; 0 for no bound.
    pub connections_per_client_max: usize,
    /// Longest time that a write may wait for the client before its connection is closed.
    pub write_timeout: Duration,
    /// Longest time for the head of a request.
    pub header_timeout: Duration,
    /// Initial wait budget for the body of a request, over all waits together. Received bytes refill the budget, see
    /// `pace`.
    pub body_timeout: Duration,
    /// Longest time that requests may continue after shutdown has begun.
    pub drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_per_client_max: 100,
            write_timeout: Duration::from_secs(60),
            header_timeout: Duration::from_secs(60),
            body_timeout: Duration::from_secs(60),
            drain_timeout: Duration::from_secs(5),
        }
    }
}

/// A response to come.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Response> + Send + 'a>>;

/// Handler of the requests of connections.
pub trait Answer: Send + Sync + 'static {
    /// Handles one request. Infallible: an error is a response, too.
    fn answer(&self, request: Request) -> Answering<'_>;
}

impl<S: Server> Answer for Api<S> {
    fn answer(&self, request: Request) -> Answering<'_> {
        Box::pin(Api::answer(self, request))
    }
}

/// The API on a task's socket: a request needs a workload identity or an ACL token.
pub struct ForTask<S: Server>(pub Api<S>);

impl<S: Server> Answer for ForTask<S> {
    fn answer(&self, mut request: Request) -> Answering<'_> {
        Box::pin(async move {
            // As in Nomad, answers on these sockets are not compressed.
            request.headers_mut().remove(axum::http::header::ACCEPT_ENCODING);
            match self.0.refuse_stranger(&request) {
                Some(refused) => refused,
                None => Api::answer(&self.0, request).await,
            }
        })
    }
}

/// Handshake, such as TLS, that secures a connection before its first request, or fails.
pub type Secure = Arc<dyn Fn(TcpStream) -> Pin<Box<dyn Future<Output = io::Result<Conn>> + Send>> + Send + Sync>;

/// Serves requests on `listener` until `shutdown`, then waits for requests under way, at most `drain_timeout`.
pub async fn serve<S: Server>(listener: TcpListener, server: Arc<S>, limits: Limits, shutdown: CancellationToken) {
    serve_with(listener, Arc::new(Api::new(server)), None, limits, shutdown).await;
}

/// Same as [`serve`] for any handler. With `secure`, every connection is secured first.
pub async fn serve_with(
    listener: TcpListener,
    api: Arc<dyn Answer>,
    secure: Option<Secure>,
    limits: Limits,
    shutdown: CancellationToken,
) {
    let clients = Arc::new(Clients::default());
    let tasks = TaskTracker::new();
    loop {
        let (stream, peer) = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "accepting a connection");
                    // Most likely the process is out of file descriptors: other connections have to end first.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        let Some(place) = clients.enter(peer.ip(), limits.connections_per_client_max) else {
            tasks.spawn(refuse(stream));
            continue;
        };
        let (api, secure, limits, shutdown) = (api.clone(), secure.clone(), limits.clone(), shutdown.clone());
        tasks.spawn(async move {
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%peer, error = &error as &dyn std::error::Error, "setting TCP_NODELAY");
            }
            match secure {
                None => connection(stream, peer, Speaker::Caller, api, &limits, shutdown).await,
                Some(secure) => match secure(stream).await {
                    Ok(stream) => connection(stream, peer, Speaker::Caller, api, &limits, shutdown).await,
                    Err(error) => {
                        tracing::debug!(%peer, error = &error as &dyn std::error::Error, "a TLS handshake failed")
                    }
                },
            }
            drop(place);
        });
    }
    tasks.close();
    if tokio::time::timeout(limits.drain_timeout, tasks.wait()).await.is_err() {
        tracing::debug!(open = tasks.len(), "connections still open at the end of shutdown");
    }
}

/// Serves requests that the agent of a node relays over one connection, until the connection ends or `shutdown`. Any
/// caller may have made these requests.
pub async fn serve_relayed(
    stream: Conn,
    peer: SocketAddr,
    api: Arc<dyn Answer>,
    limits: &Limits,
    shutdown: CancellationToken,
) {
    connection(stream, peer, Speaker::Caller, api, limits, shutdown).await;
}

/// Serves requests that another server forwards over one connection, until the connection ends or `shutdown`. The
/// other end has proved to be a server.
pub async fn serve_passed(
    stream: Conn,
    peer: SocketAddr,
    api: Arc<dyn Answer>,
    limits: &Limits,
    shutdown: CancellationToken,
) {
    connection(stream, peer, Speaker::Server, api, limits, shutdown).await;
}

/// Serves requests of a task on its own socket, until `shutdown`. `api` is a [`ForTask`].
pub async fn serve_task(listener: UnixListener, api: Arc<dyn Answer>, limits: Limits, shutdown: CancellationToken) {
    let places = Arc::new(Semaphore::new(TASK_CONNECTIONS_MAX));
    loop {
        // Further connections wait in the socket's accept queue.
        let accepted = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            () = shutdown.cancelled() => return,
            accepted = accepted => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "accepting a connection of a task");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let (api, limits, shutdown) = (api.clone(), limits.clone(), shutdown.clone());
        tokio::spawn(async move {
            let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
            connection(stream, nowhere, Speaker::Task, api, &limits, shutdown).await;
            drop(place);
        });
    }
}

/// Peer of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speaker {
    /// Any client.
    Caller,
    /// Another server, which forwards requests of its callers.
    Server,
    /// Any process of a task.
    Task,
}

async fn connection<T>(
    stream: T,
    peer: SocketAddr,
    speaker: Speaker,
    api: Arc<dyn Answer>,
    limits: &Limits,
    shutdown: CancellationToken,
) where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stalled = Stalled::default();
    let io =
        TokioIo::new(Bounded { stream, write_timeout: limits.write_timeout, waiting: None, stalled: stalled.clone() });
    let body_timeout = limits.body_timeout;
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        let api = api.clone();
        request.extensions_mut().insert(stalled.clone());
        match speaker {
            Speaker::Server => {
                let (passed, from) = passed::take(request.headers_mut(), peer.ip());
                request.extensions_mut().insert(passed);
                request.extensions_mut().insert(from);
            }
            Speaker::Caller => {
                request.extensions_mut().insert(Peer(peer.ip()));
            }
            Speaker::Task => {}
        }
        async move {
            Ok::<_, std::convert::Infallible>(
                api.answer(request.map(|body| Body::new(Paced::new(body, body_timeout)))).await,
            )
        }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .serve_connection(io, service)
        .with_upgrades();
    tokio::pin!(serving);
    let ended = tokio::select! {
        ended = &mut serving => ended,
        () = shutdown.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::trace!(%peer, error = &error as &dyn std::error::Error, "a connection ended early");
    }
}

/// Answers 429 because the client has too many connections, and closes the connection.
async fn refuse(mut stream: TcpStream) {
    const BODY: &str = "Your IP is issuing too many concurrent connections, please rate limit your calls\n";
    let head = format!(
        "HTTP/1.1 429 Too Many Requests\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{BODY}",
        BODY.len()
    );
    let sent = tokio::time::timeout(Duration::from_secs(1), stream.write_all(head.as_bytes())).await;
    if let Ok(Err(error)) = sent {
        tracing::trace!(error = &error as &dyn std::error::Error, "refusing a connection");
    }
}

/// Number of connections by client address.
#[derive(Debug, Default)]
struct Clients(Mutex<HashMap<IpAddr, usize>>);

impl Clients {
    fn enter(self: &Arc<Self>, ip: IpAddr, max: usize) -> Option<Place> {
        let mut counts = self.0.lock();
        let count = counts.entry(ip).or_default();
        if max > 0 && *count >= max {
            return None;
        }
        *count += 1;
        Some(Place { clients: Arc::clone(self), ip })
    }
}

/// Counts one connection of an address until it is dropped.
#[derive(Debug)]
struct Place {
    clients: Arc<Clients>,
    ip: IpAddr,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.clients.0.lock();
        if let Some(count) = counts.get_mut(&self.ip) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.ip);
            }
        }
    }
}

/// A connection whose writes fail when the client reads nothing for `write_timeout`.
struct Bounded<T> {
    stream: T,
    write_timeout: Duration,
    /// Deadline of the write that waits, if one does.
    waiting: Option<Pin<Box<Sleep>>>,
    stalled: Stalled,
}

impl<T> Bounded<T> {
    /// Starts the deadline of a write that has to wait, and fails the write when the deadline has passed.
    fn wait<R>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        if polled.is_ready() {
            self.waiting = None;
            return polled;
        }
        let timeout = self.write_timeout;
        let sleep = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + timeout)));
        match sleep.as_mut().poll(cx) {
            Poll::Ready(()) => {
                self.stalled.0.store(true, Ordering::Release);
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Bounded<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Bounded<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.wait(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.wait(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.wait(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
