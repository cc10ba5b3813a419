//! Counts open event streams in total and per caller, so that one caller cannot take them all.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use sentinel_core::{Fault, Kind};

/// `retry_after` of a refusal, since other streams end frequently.
const RETRY_AFTER_MS: u64 = 1000;

#[derive(Default)]
pub(super) struct OpenStreams(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    all: usize,
    /// Callers without a stream have no entry, so it has at most `all` entries.
    by_caller: HashMap<Arc<str>, usize>,
}

/// One open stream, counted while it exists.
pub(super) struct StreamPlace {
    streams: Arc<OpenStreams>,
    caller: Arc<str>,
}

impl OpenStreams {
    pub(super) fn len(&self) -> usize {
        self.0.lock().all
    }

    /// Counts one more stream of this caller, or reports the bound that is reached.
    pub(super) fn open(
        self: &Arc<Self>,
        caller: Arc<str>,
        all_max: usize,
        by_caller_max: usize,
    ) -> Result<StreamPlace, Fault> {
        let mut counts = self.0.lock();
        check(&counts, &caller, all_max, by_caller_max)?;
        counts.all += 1;
        *counts.by_caller.entry(caller.clone()).or_default() += 1;
        let streams = self.clone();
        Ok(StreamPlace { streams, caller })
    }

    pub(super) fn has_room(&self, caller: &str, all_max: usize, by_caller_max: usize) -> bool {
        check(&self.0.lock(), caller, all_max, by_caller_max).is_ok()
    }
}

fn check(counts: &Counts, caller: &str, all_max: usize, by_caller_max: usize) -> Result<(), Fault> {
    let own = counts.by_caller.get(caller).copied().unwrap_or_default();
    let text = if counts.all >= all_max {
        "too many event streams (limits.streams)"
    } else if own >= by_caller_max {
        "too many event streams of one caller (limits.streams_per_caller)"
    } else {
        return Ok(());
    };
    Err(Fault::new(Kind::TooManyStreams, text).retry_after_ms(RETRY_AFTER_MS))
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let mut counts = self.streams.0.lock();
        counts.all -= 1;
        if let Some(own) = counts.by_caller.get_mut(&self.caller) {
            *own -= 1;
            if *own == 0 {
                counts.by_caller.remove(&self.caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issue_17_4_one_caller_cannot_take_all_streams() {
        let streams = Arc::new(OpenStreams::default());
        let open = |caller: &str| streams.open(caller.into(), 4, 2);
        let noisy: Vec<_> = (0..2).map(|_| open("noisy").expect("room")).collect();
        let refused = open("noisy").err().expect("its share is taken");
        assert_eq!(refused.kind, Kind::TooManyStreams);
        assert!(refused.public.contains("streams_per_caller"));
        let others = [open("a").expect("room"), open("b").expect("room")];
        let refused = open("c").err().expect("all are taken");
        assert!(refused.public.contains("limits.streams)"));
        drop(noisy);
        assert!(streams.has_room("noisy", 4, 2));
        drop(others);
        assert_eq!(streams.len(), 0);
        assert!(streams.0.lock().by_caller.is_empty());
    }
}
