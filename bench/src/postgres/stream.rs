//! What a gateway needs to pass a large set on, row by row.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Gateway;
use super::cluster::Cluster;
use crate::gateway::Scratch;
use crate::options::Options;
use crate::usage;

const ROWS: usize = 1_000_000;
const QUICK_ROWS: usize = 100_000;
/// Bytes of text in each row.
const WIDTH: usize = 1000;
/// What is certainly passed on in a second.
const BYTES_PER_SECOND_MIN: usize = 20_000_000;
/// The end of the answer, with the last record.
const TAIL: usize = 512;

#[derive(Serialize)]
pub(super) struct Stream {
    rows: usize,
    /// As they came, with the framing of HTTP.
    bytes: usize,
    seconds: f64,
    gateway_cpu_s: f64,
    /// Resident set of the gateway before it, and the most while it ran.
    before_kb: u64,
    peak_kb: u64,
}

fn rows(options: &Options) -> usize {
    if options.quick { QUICK_ROWS } else { ROWS }
}

pub(super) fn planned(options: &Options) -> Duration {
    Duration::from_secs((rows(options) * WIDTH / BYTES_PER_SECOND_MIN) as u64 + 1)
}

/// One reader, who counts bytes.
pub(super) async fn measure(
    cluster: &Cluster,
    directory: &Scratch,
    options: &Options,
) -> anyhow::Result<Stream> {
    let gateway = Gateway::start(cluster, directory, 2, options).await?;
    // What a small stream needs is there already.
    read(&gateway, 1000).await?;
    let pids = gateway.leash.pids();
    let (before_kb, cpu) = (usage::status_kb(&pids, "VmRSS"), usage::cpu_ns(&pids));
    usage::reset_peak(&pids);
    let (since, rows) = (Instant::now(), rows(options));
    let bytes = read(&gateway, rows).await?;
    Ok(Stream {
        rows,
        bytes,
        seconds: since.elapsed().as_secs_f64(),
        gateway_cpu_s: (usage::cpu_ns(&pids) - cpu) as f64 / 1e9,
        before_kb,
        peak_kb: usage::status_kb(&pids, "VmHWM"),
    })
}

/// Reads so many rows as JSON Lines; the bytes that came.
async fn read(gateway: &Gateway, rows: usize) -> anyhow::Result<usize> {
    let mut socket = TcpStream::connect(gateway.address).await?;
    let body = format!(r#"{{"rows":{rows},"width":{WIDTH}}}"#);
    let request = format!(
        "POST /api/lines HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
         Accept: application/jsonl\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        gateway.address,
        body.len()
    );
    socket.write_all(request.as_bytes()).await?;
    let (mut bytes, mut tail) = (0, Vec::new());
    let mut buffer = vec![0; 256 << 10];
    loop {
        let count = socket.read(&mut buffer).await.context("the stream broke")?;
        if count == 0 {
            break;
        }
        bytes += count;
        tail.extend_from_slice(&buffer[count.saturating_sub(TAIL)..count]);
        tail.drain(..tail.len().saturating_sub(TAIL));
    }
    let tail = String::from_utf8_lossy(&tail);
    let has = |text: String| tail.contains(&text);
    ensure!(
        has(r#""type":"result""#.to_owned()) && has(format!(r#""count":{rows}"#)),
        "the stream did not end well: {tail}"
    );
    ensure!(bytes > rows * WIDTH, "only {bytes} bytes came");
    Ok(bytes)
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |kb: u64| kb as f64 / 1024.0;
        let megabytes = self.bytes as f64 / 1e6;
        write!(
            f,
            "postgres stream: {} rows, {megabytes:.0} MB as JSON Lines in {:.1} s ({:.0} MB/s, {:.1} s of CPU in the gateway); \
             the gateway held {:.1} MiB at most, {:.1} MiB before",
            self.rows,
            self.seconds,
            megabytes / self.seconds,
            self.gateway_cpu_s,
            mib(self.peak_kb),
            mib(self.before_kb)
        )
    }
}
