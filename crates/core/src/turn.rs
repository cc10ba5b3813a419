//! The end of a turn of a thread's loop, where what several calls need is done once.
//!
//! A call's record must be in the spool before its answer leaves, and one that is made among other things costs more
//! than one of several in a row. So a thread that runs `run` gathers what ends in one turn and holds the answers; at
//! the end of the turn the records are made together, then the answers go out. A thread that does not run it gathers
//! nothing: whoever asks does the work at once.

use std::cell::RefCell;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// Keeps what was gathered.
pub trait Keep: Send + Sync {
    fn keep(&self);
}

/// Lets go what was held.
pub trait Release: Send + Sync {
    fn release(&self);
}

#[derive(Default)]
struct Turn {
    /// Somebody ends turns here: how to wake it.
    ender: Option<Waker>,
    gathered: Vec<Arc<dyn Keep>>,
    held: Vec<Arc<dyn Release>>,
}

thread_local! {
    static TURN: RefCell<Turn> = RefCell::default();
}

/// `true` if `keeper` will be told to keep at the end of this turn; `false` if there is no such end.
pub fn gather<K: Keep + 'static>(keeper: &Arc<K>) -> bool {
    TURN.with_borrow_mut(|turn| {
        let Some(ender) = &turn.ender else {
            return false;
        };
        if turn.gathered.is_empty() {
            ender.wake_by_ref();
        }
        let known = |one: &Arc<dyn Keep>| std::ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(keeper));
        if !turn.gathered.iter().any(known) {
            turn.gathered.push(keeper.clone());
        }
        true
    })
}

/// Something was gathered on this thread and is not kept yet: nothing that rests on it may leave.
pub fn is_open() -> bool {
    TURN.with_borrow(|turn| !turn.gathered.is_empty())
}

/// Lets it go when everything gathered is kept. Only while the turn is open.
pub fn hold(answer: Arc<dyn Release>) {
    TURN.with_borrow_mut(|turn| turn.held.push(answer));
}

/// Ends the turn of this thread now, for somebody who cannot wait.
pub fn end() {
    // Taken out first: whoever is told may come back to this module. The vectors return for the next turn.
    let (mut gathered, mut held) = TURN.with_borrow_mut(|turn| {
        let gathered = std::mem::take(&mut turn.gathered);
        (gathered, std::mem::take(&mut turn.held))
    });
    gathered.drain(..).for_each(|keeper| keeper.keep());
    held.drain(..).for_each(|answer| answer.release());
    TURN.with_borrow_mut(|turn| {
        if turn.gathered.is_empty() && turn.held.is_empty() {
            turn.gathered = gathered;
            turn.held = held;
        }
    });
}

/// Ends the turns of this thread as long as it is polled: a task of a single-threaded runtime.
pub async fn run() {
    let _left = Left;
    let mut looks = Looks::default();
    loop {
        // Those that are ready already end in the same turn.
        opened().await;
        if held() < ENOUGH && looks.is_worth_it() {
            let mut more = look().await;
            looks.brought(more);
            for _ in 1..LOOKS_MAX {
                more = more && held() < ENOUGH && look().await;
            }
        }
        end();
    }
}

/// With so many answers held a turn ends at once: each would wait for the others, and more make it no cheaper by much.
const ENOUGH: usize = 8;
/// In one turn.
const LOOKS_MAX: u32 = 3;

/// Lets those take part whose bytes are there already; whether any did.
async fn look() -> bool {
    let before = held();
    tokio::task::yield_now().await;
    held() > before
}

/// Whether to look for more answers before a turn ends: it costs a system call, and brings nothing where calls come
/// one by one.
#[derive(Default)]
struct Looks {
    /// In a row.
    in_vain: u32,
    /// Turns until the next one.
    pause: u32,
}

impl Looks {
    /// However often it was in vain, times change.
    const PAUSE_MAX: u32 = 16;

    fn is_worth_it(&mut self) -> bool {
        let is_due = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        is_due
    }

    fn brought(&mut self, some: bool) {
        self.in_vain = match some {
            true => 0,
            false => self.in_vain.saturating_add(1),
        };
        // Once may be chance.
        self.pause = (self.in_vain / 2).min(Self::PAUSE_MAX);
    }
}

fn held() -> usize {
    TURN.with_borrow(|turn| turn.held.len())
}

async fn opened() {
    std::future::poll_fn(|cx| {
        TURN.with_borrow_mut(|turn| {
            if !turn.gathered.is_empty() {
                return Poll::Ready(());
            }
            match &mut turn.ender {
                Some(ender) => ender.clone_from(cx.waker()),
                None => turn.ender = Some(cx.waker().clone()),
            }
            Poll::Pending
        })
    })
    .await;
}

/// Nobody ends turns here any more.
struct Left;

impl Drop for Left {
    fn drop(&mut self) {
        // At the end of a thread there may be no turn left to end.
        let _ = TURN.try_with(|turn| turn.borrow_mut().ender = None);
        if TURN.try_with(|_| ()).is_ok() {
            end();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use parking_lot::Mutex;

    use super::*;

    #[derive(Default)]
    struct Notes(Mutex<Vec<&'static str>>);

    impl Keep for Notes {
        fn keep(&self) {
            self.0.lock().push("kept");
        }
    }

    impl Release for Notes {
        fn release(&self) {
            self.0.lock().push("released");
        }
    }

    #[test]
    fn a_thread_without_turns_gathers_nothing() {
        assert!(!gather(&Arc::new(Notes::default())));
        assert!(!is_open());
    }

    #[tokio::test]
    async fn what_ends_in_one_turn_is_kept_once_and_before_anything_leaves() {
        let notes = Arc::new(Notes::default());
        let runs = tokio::spawn(run());
        tokio::task::yield_now().await;
        let done = Arc::new(AtomicUsize::new(0));
        for _ in 0..3 {
            let (notes, done) = (notes.clone(), done.clone());
            tokio::spawn(async move {
                assert!(gather(&notes));
                assert!(is_open());
                hold(notes);
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
        while is_open() || done.load(Ordering::Relaxed) < 3 {
            tokio::task::yield_now().await;
        }
        assert_eq!(
            *notes.0.lock(),
            ["kept", "released", "released", "released"]
        );
        runs.abort();
        let _ = runs.await;
        assert!(!gather(&notes), "nobody would end the turn");
    }

    #[test]
    fn looks_that_bring_nothing_become_rare_and_one_that_does_brings_them_back() {
        let mut looks = Looks::default();
        let mut rate = |turns: u32, brings: bool| {
            let looked = (0..turns).filter(|_| {
                let looks_now = looks.is_worth_it();
                if looks_now {
                    looks.brought(brings);
                }
                looks_now
            });
            looked.count()
        };
        assert_eq!(rate(10, true), 10);
        assert!(rate(1000, false) < 100);
        let before_the_next = Looks::PAUSE_MAX;
        rate(before_the_next, true);
        assert_eq!(rate(10, true), 10);
    }

    /// How many answers each turn let go, of a task that has `each` of them whenever somebody looks.
    async fn turns(each: usize) -> Vec<usize> {
        let notes = Arc::new(Notes::default());
        let _runs = tokio::spawn(run());
        tokio::task::yield_now().await;
        for _ in 0..20 {
            for _ in 0..each {
                gather(&notes);
                hold(notes.clone());
            }
            tokio::task::yield_now().await;
        }
        let all = notes.0.lock().join(" ");
        let turns = all.split("kept").skip(1);
        turns.map(|turn| turn.matches("released").count()).collect()
    }

    #[tokio::test]
    async fn a_turn_ends_whatever_comes() {
        let one_by_one = turns(1).await;
        let most = LOOKS_MAX as usize + 1;
        assert!(one_by_one.contains(&most), "{one_by_one:?}");
        assert!(
            one_by_one.iter().all(|turn| *turn <= most),
            "{one_by_one:?}"
        );
        let enough = turns(ENOUGH).await;
        assert!(enough.iter().all(|turn| *turn == ENOUGH), "{enough:?}");
    }

    #[tokio::test]
    async fn whoever_cannot_wait_ends_the_turn() {
        let notes = Arc::new(Notes::default());
        let _runs = tokio::spawn(run());
        tokio::task::yield_now().await;
        assert!(gather(&notes));
        hold(notes.clone());
        end();
        assert!(!is_open());
        assert_eq!(*notes.0.lock(), ["kept", "released"]);
    }
}
