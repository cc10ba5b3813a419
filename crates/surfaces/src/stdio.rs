//! MCP over stdio: one caller, newline-delimited JSON on a pair of pipes, either era.
//!
//! The reader never waits for a call, and everything goes out through one bounded queue, written in batches. When the
//! input ends, the calls in flight are cancelled.

use std::sync::Arc;

use sentinel_core::audit::Surface;
use sentinel_core::{Fault, Identity, Kind, View};
use sentinel_wire::lines::{LineDecoder, LineTooLong, push_line};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use crate::gateway::Gateway;
use crate::mcp::{Connection, Opening, ReadyAt};

const READ_BYTES: usize = 64 * 1024;
/// Messages that are written at once.
const WRITE_BATCH: usize = 64;

/// Serves one caller of the merged catalog until its input ends or the gateway shuts down. Its identity was settled at
/// the start (G-19): nothing it sends changes that.
pub async fn serve<R, W>(gateway: Arc<Gateway>, identity: Arc<Identity>, input: R, output: W)
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin + Send + 'static,
{
    serve_view(gateway, identity, View::Merged, input, output).await;
}

/// Serves one caller of one view, as `/mcp` and `/mcp/<backend>` do over HTTP.
pub async fn serve_view<R, W>(
    gateway: Arc<Gateway>,
    identity: Arc<Identity>,
    view: View,
    mut input: R,
    output: W,
) where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let opening = Opening {
        gateway: gateway.clone(),
        identity,
        view,
        tags: None,
        // A process has one caller on its pipes, so the id need not be unique.
        id: "stdio".into(),
        ready_at: ReadyAt::Initialized,
    };
    let (connection, messages) = Connection::open(Surface::Stdio, opening);
    let writer = tokio::spawn(write(messages, output));
    let mut changes = connection.list_changes();
    let mut decoder = LineDecoder::new(gateway.limits().line_bytes_max);
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let read = tokio::select! {
            read = input.read(&mut buffer) => read,
            Some(changed) = changes.next() => {
                for message in connection.change_messages(changed) {
                    connection.send(message).await;
                }
                continue;
            }
            () = gateway.drained() => break,
            () = connection.closed() => break,
        };
        let Ok(len @ 1..) = read else { break };
        let mut chunk = &buffer[..len];
        while let Some(line) = decoder.next(&mut chunk) {
            receive(&connection, line).await;
        }
    }
    if let Some(line) = decoder.finish() {
        receive(&connection, line).await;
    }
    if gateway.is_draining() {
        connection.session.in_flight.idle().await;
    }
    drop(connection);
    let _ = writer.await;
}

async fn receive(connection: &Connection, line: Result<bytes::Bytes, LineTooLong>) {
    match line {
        Ok(line) => connection.receive(line, None).await,
        Err(long) => {
            let fault = Fault::new(Kind::TooLarge, long.to_string());
            connection.refuse(&fault).await;
        }
    }
}

/// Writes all messages that wait in one go.
async fn write<W: AsyncWrite + Unpin>(mut messages: mpsc::Receiver<Vec<u8>>, mut output: W) {
    let mut batch = Vec::with_capacity(WRITE_BATCH);
    let mut out = Vec::new();
    while messages.recv_many(&mut batch, WRITE_BATCH).await > 0 {
        out.clear();
        for message in batch.drain(..) {
            push_line(&mut out, &message);
        }
        if output.write_all(&out).await.is_err() || output.flush().await.is_err() {
            return;
        }
    }
}
