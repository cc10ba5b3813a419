//! The connection to Redis: opened, shared by all calls, reopened when lost.
//!
//! `run` owns it. Requests are pipelined and answers arrive in the same order, so the oldest request is next. If one
//! answer takes too long the connection is given up: all waiting requests fail, and the server is probed after a
//! backoff by a greeting that includes all that a call does. So no call serves as the probe.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

use super::resp::{self, Reply};
use super::url::Place;
use super::{ANSWER_MAX, Bucket, IN_FLIGHT_MAX, PREFIX, State};

const SCRIPT: &str = include_str!("bucket.lua");
/// Longest time for connecting and logging in.
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// Reconnect backoff: doubles from `PAUSE_MIN` to `PAUSE_MAX`.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(4);
/// Interval of probes on an idle connection, so that no call has to detect a lost server.
const IDLE_MAX: Duration = Duration::from_secs(10);
/// Bound on text of the server in log lines.
const SAID_CHARS_MAX: usize = 200;

/// One request and its caller.
pub(super) struct Job {
    pub(super) bucket: Bucket,
    /// Send the whole script, since the server has forgotten it.
    pub(super) whole: bool,
    pub(super) reply: oneshot::Sender<Reply>,
}

/// Why the server is unusable. Never contains the password.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    #[error("{0}")]
    Io(io::Error),
    #[error("it closed the connection")]
    Closed,
    #[error("it did not answer in time")]
    Silent,
    #[error("what answers there is no Redis")]
    NoRedis,
    /// Servers may repeat what was sent to them, so only the first word of the answer is shown.
    #[error("it does not accept the user and password of the URL ({0})")]
    Login(String),
    #[error("it says: {0}")]
    Refused(String),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<resp::ProtocolError> for Trouble {
    fn from(_: resp::ProtocolError) -> Self {
        Self::NoRedis
    }
}

impl Trouble {
    fn refused(said: &str) -> Self {
        // The text that it repeats is ours, and long.
        let said = said.split(", with args").next().unwrap_or_default();
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        Self::Refused(said.chars().take(SAID_CHARS_MAX).map(plain).collect())
    }
}

pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// A connection that is logged in and has the script.
pub(super) struct Connection {
    stream: Box<dyn Stream>,
    /// Received and not yet parsed.
    input: Vec<u8>,
    /// The server's hash of the script.
    script: String,
}

/// Maintains the connection until all handles are dropped.
pub(super) async fn run(place: Place, mut jobs: mpsc::Receiver<Job>, state: Arc<State>) {
    let mut pause = PAUSE_MIN;
    // The first connection is not logged as a recovery.
    let mut was_up = true;
    loop {
        let trouble = match connect(&place).await {
            Ok(connection) => {
                if !was_up {
                    tracing::info!("Redis at {place} answers again: rate limits are shared");
                }
                pause = PAUSE_MIN;
                was_up = true;
                state.is_up.store(true, Relaxed);
                match connection.serve(&mut jobs).await {
                    Ok(()) => return,
                    Err(trouble) => trouble,
                }
            }
            Err(trouble) => trouble,
        };
        state.is_up.store(false, Relaxed);
        if was_up {
            tracing::warn!(
                "Redis at {place} cannot be used: {trouble}; until it can, each gateway counts rate limits alone"
            );
        } else {
            tracing::debug!("Redis at {place} still cannot be used: {trouble}");
        }
        was_up = false;
        // Requests sent at that moment are failed now.
        let turn_away = async { while jobs.recv().await.is_some() {} };
        if timeout(pause, turn_away).await.is_ok() {
            return;
        }
        pause = (2 * pause).min(PAUSE_MAX);
    }
}

/// Connects, and does once everything that a call needs.
pub(super) async fn connect(place: &Place) -> Result<Connection, Trouble> {
    let connecting = timeout(CONNECT_MAX, async {
        let mut connection = Connection {
            stream: open(place).await?,
            input: Vec::new(),
            script: String::new(),
        };
        connection.greet(place).await?;
        Ok(connection)
    });
    connecting.await.unwrap_or(Err(Trouble::Silent))
}

async fn open(place: &Place) -> io::Result<Box<dyn Stream>> {
    let stream = TcpStream::connect((place.host.as_str(), place.port)).await?;
    stream.set_nodelay(true)?;
    Ok(match &place.tls {
        Some((connector, name)) => Box::new(connector.connect(name.clone(), stream).await?),
        None => Box::new(stream),
    })
}

impl Connection {
    async fn greet(&mut self, place: &Place) -> Result<(), Trouble> {
        if let Some((user, password)) = &place.login {
            let user = user.as_deref().map(str::as_bytes);
            let parts = [Some(&b"AUTH"[..]), user, Some(password.as_bytes())];
            let parts: Vec<&[u8]> = parts.into_iter().flatten().collect();
            if let Reply::Error(said) = self.ask(&parts).await? {
                let word = said.split(' ').next().unwrap_or_default();
                return Err(Trouble::Login(word.to_owned()));
            }
        }
        if place.database != 0 {
            let database = place.database.to_string();
            self.must(&[b"SELECT", database.as_bytes()]).await?;
        }
        let loaded = self.must(&[b"SCRIPT", b"LOAD", SCRIPT.as_bytes()]).await?;
        let Reply::Text(script) = loaded else {
            return Err(Trouble::NoRedis);
        };
        self.script = script;
        // A probe on an unused bucket: checks reading, writing and running the script.
        let mut out = Vec::new();
        let probe = Bucket {
            key: format!("{PREFIX}probe"),
            rpm: u32::MAX,
            burst: 1,
        };
        write_question(&mut out, &probe, Some(&self.script));
        self.stream.write_all(&out).await?;
        self.stream.flush().await?;
        match self.next().await? {
            Reply::Number(_) => Ok(()),
            Reply::Error(said) => Err(Trouble::refused(&said)),
            Reply::Text(_) => Err(Trouble::NoRedis),
        }
    }

    async fn must(&mut self, parts: &[&[u8]]) -> Result<Reply, Trouble> {
        match self.ask(parts).await? {
            Reply::Error(said) => Err(Trouble::refused(&said)),
            reply => Ok(reply),
        }
    }

    async fn ask(&mut self, parts: &[&[u8]]) -> Result<Reply, Trouble> {
        let mut out = Vec::new();
        resp::command(&mut out, parts);
        self.stream.write_all(&out).await?;
        self.stream.flush().await?;
        self.next().await
    }

    async fn next(&mut self) -> Result<Reply, Trouble> {
        loop {
            if let Some((reply, len)) = resp::parse(&self.input)? {
                self.input.drain(..len);
                return Ok(reply);
            }
            if self.stream.read_buf(&mut self.input).await? == 0 {
                return Err(Trouble::Closed);
            }
        }
    }

    /// Sends requests and returns answers, until the connection fails (an error) or all handles are dropped.
    async fn serve(self, jobs: &mut mpsc::Receiver<Job>) -> Result<(), Trouble> {
        let (mut reading, mut writing) = tokio::io::split(self.stream);
        let mut input = self.input;
        let mut out = Vec::new();
        let mut unflushed = false;
        let mut waiting: VecDeque<Waiting> = VecDeque::new();
        let mut idle_since = Instant::now();
        // A thread that was delayed itself checks once more before it gives the server up.
        let mut looked_twice = false;
        loop {
            let write = async {
                match out.is_empty() {
                    false => writing.write(&out).await,
                    true => writing.flush().await.map(|()| 0),
                }
            };
            let until = match waiting.front() {
                Some(first) => first.since + ANSWER_MAX,
                None => idle_since + IDLE_MAX,
            };
            tokio::select! {
                biased;
                read = reading.read_buf(&mut input) => {
                    if read? == 0 {
                        return Err(Trouble::Closed);
                    }
                    looked_twice = false;
                    while let Some((reply, len)) = resp::parse(&input)? {
                        input.drain(..len);
                        waiting.pop_front().ok_or(Trouble::NoRedis)?.hear(reply)?;
                    }
                }
                wrote = write, if !out.is_empty() || unflushed => {
                    let wrote = wrote?;
                    unflushed = wrote > 0 || !out.is_empty();
                    out.drain(..wrote);
                }
                job = jobs.recv(), if waiting.len() < IN_FLIGHT_MAX => {
                    let Some(job) = job else { return Ok(()) };
                    // A caller that timed out must not be charged.
                    if !job.reply.is_closed() {
                        let script = (!job.whole).then_some(&*self.script);
                        write_question(&mut out, &job.bucket, script);
                        waiting.push_back(Waiting::new(Some(job)));
                    }
                    idle_since = Instant::now();
                }
                () = sleep_until(until) => {
                    if waiting.is_empty() {
                        resp::command(&mut out, &[b"PING"]);
                        waiting.push_back(Waiting::new(None));
                        idle_since = Instant::now();
                    } else if looked_twice {
                        return Err(Trouble::Silent);
                    } else {
                        looked_twice = true;
                        tokio::task::yield_now().await;
                    }
                }
            }
        }
    }
}

/// Calls the script by its hash, or with its source.
fn write_question(out: &mut Vec<u8>, bucket: &Bucket, script: Option<&str>) {
    let (rpm, burst) = (bucket.rpm.to_string(), bucket.burst.to_string());
    let (verb, script) = script.map_or(("EVAL", SCRIPT), |script| ("EVALSHA", script));
    let parts = [verb, script, "1", &bucket.key, &rpm, &burst];
    resp::command(out, &parts.map(str::as_bytes));
}

/// A request whose answer is pending.
struct Waiting {
    /// `None` for a probe.
    job: Option<Job>,
    since: Instant,
}

impl Waiting {
    fn new(job: Option<Job>) -> Self {
        Self {
            job,
            since: Instant::now(),
        }
    }

    /// Delivers the answer. A missing script is sent again; any other error concerns all requests.
    fn hear(self, reply: Reply) -> Result<(), Trouble> {
        let is_whole = self.job.as_ref().is_none_or(|job| job.whole);
        match &reply {
            Reply::Error(said) if is_whole || !said.starts_with("NOSCRIPT") => {
                return Err(Trouble::refused(said));
            }
            _ => {}
        }
        if let Some(job) = self.job {
            let _ = job.reply.send(reply);
        }
        Ok(())
    }
}
