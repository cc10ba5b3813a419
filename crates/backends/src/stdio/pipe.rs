//! The JSON-RPC pipe to one process: pending ids, and the queue of lines to write.
//!
//! A call enters with [`Pipe::begin`], which mints its id and queues its line in one step; its [`Ticket`] is its
//! entry in the table. Dropping the ticket removes the entry and, if no answer came, sends `notifications/cancelled`.
//! The owner of the process runs [`Pipe::write_to`], which writes all queued lines in one batch, and [`read_lines`],
//! and takes entries out by the ids of answers. [`Pipe::close`] drops every entry: waiting calls see their sender
//! dropped.
//!
//! Not here: what an entry is and what lines mean (`super::session`).

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use sentinel_wire::lines::{LineDecoder, LineTooLong};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;

use super::overlong::Ends;

/// Bytes queued for a child that does not read. Beyond it callers wait for room until their deadlines, so a stuck
/// child costs no more than this and one line of the largest size.
const QUEUED_MAX: usize = 1024 * 1024;

/// Size of one read: the capacity of a pipe, so that one call empties it.
const READ_LEN: usize = 64 * 1024;

/// A larger write buffer, grown for one long line, is freed after use.
const KEPT_CAPACITY: usize = 256 * 1024;

/// The process ended or is being ended; nothing more can be sent to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the process no longer takes requests")]
pub(crate) struct Closed;

/// The pending requests and queued lines of one process.
#[derive(Debug)]
pub(crate) struct Pipe<T> {
    state: Mutex<State<T>>,
    /// There are lines to write, or the pipe was finished or closed.
    filled: Notify,
    /// The queue has room again.
    drained: Notify,
}

#[derive(Debug)]
struct State<T> {
    last_id: u64,
    /// Bounded by admission: an entry lives as long as the call that holds its ticket.
    pending: HashMap<u64, T>,
    queued: Vec<u8>,
    closed: bool,
    seen: Use,
}

/// Counts of the answers of a process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Use {
    /// Answers that a call waited for.
    pub(crate) answered: u64,
    /// Answers without an entry: unknown, late or repeated ids.
    pub(crate) strays: u64,
}

/// One call's entry in the table.
#[derive(Debug)]
pub(crate) struct Ticket<T> {
    pipe: Arc<Pipe<T>>,
    id: u64,
    /// Dropping it sends no cancellation.
    silent: bool,
}

impl<T> Pipe<T> {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                last_id: 0,
                pending: HashMap::new(),
                queued: Vec::new(),
                closed: false,
                seen: Use {
                    answered: 0,
                    strays: 0,
                },
            }),
            filled: Notify::new(),
            drained: Notify::new(),
        })
    }

    /// Enters a request: `write` appends its JSON with the given id.
    ///
    /// Waits while the queue is full. May be dropped at any time; then nothing was sent.
    pub(crate) async fn begin(
        self: &Arc<Self>,
        entry: T,
        write: impl FnOnce(u64, &mut Vec<u8>),
    ) -> Result<Ticket<T>, Closed> {
        self.room().await;
        let mut state = self.state.lock();
        if state.closed {
            return Err(Closed);
        }
        state.last_id += 1;
        let id = state.last_id;
        state.pending.insert(id, entry);
        state.push_line(|out| write(id, out));
        drop(state);
        self.filled.notify_one();
        Ok(Ticket {
            pipe: Arc::clone(self),
            id,
            silent: false,
        })
    }

    /// Waits until the queue is below its bound. Several calls may pass at once and exceed it by their lines; each of
    /// those was admitted.
    pub(crate) async fn room(&self) {
        while self.is_full() {
            let mut drained = std::pin::pin!(self.drained.notified());
            drained.as_mut().enable();
            if self.is_full() {
                drained.await;
            }
        }
    }

    fn is_full(&self) -> bool {
        let state = self.state.lock();
        !state.closed && state.queued.len() >= QUEUED_MAX
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Queues a line without an entry: a notification, or an answer to the child. Allowed up to twice the bound of
    /// calls; beyond that it is dropped, so a child that asks without end and does not read goes without answers.
    pub(crate) fn post(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.state.lock();
        if !state.closed && state.queued.len() < 2 * QUEUED_MAX {
            state.push_line(write);
            drop(state);
            self.filled.notify_one();
        }
    }

    /// Removes the entry that an answer is for.
    pub(crate) fn take(&self, id: Option<u64>) -> Option<T> {
        let mut state = self.state.lock();
        let entry = id.and_then(|id| state.pending.remove(&id));
        if entry.is_some() {
            state.seen.answered += 1;
        } else {
            state.seen.strays += 1;
        }
        entry
    }

    /// Accesses the entry of a request that goes on, such as one that made progress.
    pub(crate) fn with<R>(&self, id: u64, look: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.state.lock().pending.get_mut(&id).map(look)
    }

    /// The one entry that satisfies `is_it`; `None` if there is none or more than one.
    pub(crate) fn only<R>(
        &self,
        is_it: impl Fn(&T) -> bool,
        look: impl FnOnce(u64, &mut T) -> R,
    ) -> Option<R> {
        let mut state = self.state.lock();
        let mut found = state.pending.iter_mut().filter(|(_, entry)| is_it(entry));
        match (found.next(), found.next()) {
            (Some((id, entry)), None) => Some(look(*id, entry)),
            _ => None,
        }
    }

    /// Number of entries that satisfy `is_it`.
    pub(crate) fn count(&self, is_it: impl Fn(&T) -> bool) -> usize {
        self.state
            .lock()
            .pending
            .values()
            .filter(|entry| is_it(entry))
            .count()
    }

    pub(crate) fn seen(&self) -> Use {
        self.state.lock().seen
    }

    /// Accepts no more requests. Queued lines are still written; then the child's input is closed.
    pub(crate) fn finish(&self) {
        self.state.lock().closed = true;
        self.filled.notify_one();
        self.drained.notify_waiters();
    }

    /// The process is gone: drops every entry and the queue.
    pub(crate) fn close(&self) {
        let entries = {
            let mut state = self.state.lock();
            state.closed = true;
            state.queued = Vec::new();
            std::mem::take(&mut state.pending)
        };
        self.filled.notify_one();
        self.drained.notify_waiters();
        // Outside the lock: dropping an entry wakes its waiting call.
        drop(entries);
    }

    /// Writes queued lines until the pipe is finished or the child stops reading for good. The sink is dropped at the
    /// end, which is end of file for the child.
    pub(crate) async fn write_to(&self, mut sink: impl AsyncWrite + Unpin) -> io::Result<()> {
        let mut batch = Vec::new();
        loop {
            let closed = self.swap_queued(&mut batch);
            if batch.is_empty() {
                if closed {
                    return Ok(());
                }
                self.filled.notified().await;
                continue;
            }
            self.drained.notify_waiters();
            sink.write_all(&batch).await?;
            batch.clear();
            batch.shrink_to(KEPT_CAPACITY);
        }
    }

    /// Exchanges the queue for an empty buffer; true if the pipe takes no more lines.
    fn swap_queued(&self, batch: &mut Vec<u8>) -> bool {
        let mut state = self.state.lock();
        std::mem::swap(&mut state.queued, batch);
        state.closed
    }

    /// Removes the entry of a dropped call, and tells the child.
    fn abandon(&self, id: u64) {
        let mut state = self.state.lock();
        let Some(entry) = state.pending.remove(&id) else {
            return;
        };
        if !state.closed {
            state.push_line(|out| write_cancelled(id, out));
            self.filled.notify_one();
        }
        drop(state);
        drop(entry);
    }
}

impl<T> State<T> {
    fn push_line(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.queued.len();
        write(&mut self.queued);
        one_line(&mut self.queued[start..]);
        self.queued.push(b'\n');
    }
}

/// In JSON a raw line end occurs only between tokens, where a space is equivalent. Callers over HTTP may send such
/// text; on stdio it would end the message.
fn one_line(json: &mut [u8]) {
    while let Some(at) = memchr::memchr2(b'\n', b'\r', json) {
        json[at] = b' ';
    }
}

fn write_cancelled(id: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(
        br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"#,
    );
    out.extend_from_slice(itoa::Buffer::new().format(id).as_bytes());
    out.extend_from_slice(b"}}");
}

impl<T> Ticket<T> {
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// For requests that may not be cancelled (`initialize`), or whose end the child announced itself.
    pub(crate) fn silence(&mut self) {
        self.silent = true;
    }
}

impl<T> Drop for Ticket<T> {
    fn drop(&mut self) {
        match self.silent {
            true => drop(self.pipe.state.lock().pending.remove(&self.id)),
            false => self.pipe.abandon(self.id),
        }
    }
}

/// One line of a child's standard output.
#[derive(Debug)]
pub(crate) enum Line {
    Whole(Bytes),
    /// Skipped; `id` if the ends of the line show which request it answered.
    TooLong {
        error: LineTooLong,
        id: Option<u64>,
    },
}

/// Reads lines until the end of the stream. `on_line` must not block.
pub(crate) async fn read_lines(
    mut source: impl AsyncRead + Unpin,
    line_max: usize,
    mut on_line: impl FnMut(Line),
) -> io::Result<()> {
    let mut decoder = LineDecoder::new(line_max);
    let mut ends = Ends::default();
    let mut chunk = vec![0; READ_LEN];
    loop {
        let got = source.read(&mut chunk).await?;
        let mut input = &chunk[..got];
        if got == 0 {
            // A last line without its newline: the child died while writing, or never writes one.
            if let Some(line) = decoder.finish() {
                on_line(ends.judge(line, &[]));
            }
            return Ok(());
        }
        let mut before = input;
        while let Some(line) = decoder.next(&mut input) {
            let read = &before[..before.len() - input.len()];
            on_line(ends.judge(line, read));
            before = input;
        }
        ends.keep(before);
    }
}

#[cfg(test)]
mod tests;
