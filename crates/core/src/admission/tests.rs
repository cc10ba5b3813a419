//! The six invariants of admission: by hand, by random orders, and by random interleavings of the
//! scheduler that the program uses.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::FutureExt;
use proptest::prelude::*;

use super::scheduler::{Lock, Ticket};
use super::*;

type Real = Mutex<State>;

fn bounds(max_concurrent: u32, queue_size: u32) -> Bounds {
    Bounds {
        max_concurrent,
        queue_size,
    }
}

/// Wide rooms, so that only the global bounds matter.
fn scheduler(max: u32, queue: u32) -> Arc<Scheduler<Real>> {
    Scheduler::new(bounds(max, queue), [bounds(1000, 1000), bounds(1000, 1000)])
}

fn admission(max: u32, queue: u32, timeout_ms: u64) -> Arc<Admission> {
    let config = AdmissionConfig {
        bounds: bounds(max, queue),
        queue_timeout: Duration::from_millis(timeout_ms),
        overload_error_code: -32001,
        backends: vec![bounds(1000, 1000)],
    };
    Admission::new(&config, None)
}

fn waiting(entry: Result<Entry<Real>, Refused>) -> Ticket<Real> {
    match entry {
        Ok(Entry::Wait(ticket)) => ticket,
        Ok(Entry::Now(_)) => panic!("not waiting"),
        Err(refused) => panic!("{refused:?}"),
    }
}

fn now(entry: Result<Entry<Real>, Refused>) -> scheduler::Permit<Real> {
    match entry {
        Ok(Entry::Now(permit)) => permit,
        Ok(Entry::Wait(_)) => panic!("waiting"),
        Err(refused) => panic!("{refused:?}"),
    }
}

fn granted<L: Lock<State>>(ticket: &mut Ticket<L>) -> Option<scheduler::Permit<L>> {
    match ticket.poll_unpin(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(permit)) => Some(permit),
        Poll::Ready(Err(refused)) => panic!("displaced: {refused:?}"),
        Poll::Pending => None,
    }
}

#[test]
fn p_2_to_p_6_each_reason_for_a_refusal() {
    let alice: Arc<str> = "alice".into();
    let none = scheduler(1, 0);
    let _running = now(none.enter(&alice, 0));
    let refused = none.enter(&alice, 0).err().expect("no queue");
    assert_eq!(refused.reason, Reason::ConcurrencyLimit);

    let two = scheduler(1, 2);
    let _running = now(two.enter(&alice, 0));
    let _first = waiting(two.enter(&alice, 0));
    let second = waiting(two.enter(&alice, 0));
    let refused = two.enter(&alice, 0).err().expect("full");
    assert_eq!(
        refused,
        Refused {
            reason: Reason::QueueFull,
            active: 1,
            queued: 2,
            bounds: bounds(1, 2)
        }
    );
    let refused = second.give_up().err().expect("no place came");
    assert_eq!(refused.reason, Reason::QueueTimeout);
    assert_eq!(refused.queued, 1, "P-14: it left the queue");
    assert_eq!(two.figures().rejected, [1, 1, 0]);
}

#[test]
fn p_12_p_13_cancelling_frees_what_was_held() {
    let alice: Arc<str> = "alice".into();
    let one = scheduler(1, 2);
    let running = now(one.enter(&alice, 0));
    let cancelled = waiting(one.enter(&alice, 0));
    let mut next = waiting(one.enter(&alice, 0));
    assert!(granted(&mut next).is_none());
    drop(cancelled);
    assert_eq!(one.figures().queued, 1);
    drop(running);
    let permit = granted(&mut next).expect("promoted");
    assert_eq!((one.figures().active, one.figures().queued), (1, 0));
    drop(permit);
    assert_eq!(one.figures().active, 0);
    // Granted, but cancelled before it could run.
    let running = now(one.enter(&alice, 0));
    let given = waiting(one.enter(&alice, 0));
    drop(running);
    drop(given);
    assert_eq!(one.figures().active, 0);
    assert!(one.is_consistent());
}

#[test]
fn p_r06_callers_take_turns_and_each_keeps_its_order() {
    let (noisy, quiet): (Arc<str>, Arc<str>) = ("noisy".into(), "quiet".into());
    let one = scheduler(1, 100);
    let mut running = Some(now(one.enter(&noisy, 0)));
    let mut all: Vec<(String, Ticket<Real>)> = (0..5)
        .map(|n| (format!("noisy {n}"), waiting(one.enter(&noisy, n % 2))))
        .collect();
    all.extend((0..3).map(|n| (format!("quiet {n}"), waiting(one.enter(&quiet, 0)))));
    let mut order = Vec::new();
    while !all.is_empty() {
        drop(running.take());
        let at = all.iter_mut().position(|(_, ticket)| {
            running = granted(ticket);
            running.is_some()
        });
        let (name, _) = all.remove(at.expect("somebody is next"));
        order.push(name);
        assert!(one.is_consistent());
    }
    let of = |who: &str| -> Vec<&String> { order.iter().filter(|n| n.starts_with(who)).collect() };
    assert_eq!(of("quiet"), ["quiet 0", "quiet 1", "quiet 2"]);
    let places: Vec<usize> = (0..order.len())
        .filter(|at| order[*at].starts_with("quiet"))
        .collect();
    assert_eq!(places, [1, 3, 5], "{order:?}");
}

#[test]
fn p_r06_a_burst_that_fills_the_queue_does_not_keep_others_out() {
    let (noisy, quiet): (Arc<str>, Arc<str>) = ("noisy".into(), "quiet".into());
    let both: Arc<Scheduler<Real>> = Scheduler::new(bounds(1, 4), [bounds(1, 4), bounds(1, 2)]);
    let _running = now(both.enter(&noisy, 0));
    let mut burst: Vec<Ticket<Real>> = (0..4).map(|_| waiting(both.enter(&noisy, 0))).collect();
    assert!(
        both.enter(&noisy, 0).is_err(),
        "full for the one who filled it"
    );
    let mut look = |at: usize| burst[at].poll_unpin(&mut Context::from_waker(Waker::noop()));
    // One by one, the newest of the burst make room, until both have as many.
    let mut first = waiting(both.enter(&quiet, 0));
    let displaced = match look(3) {
        Poll::Ready(Err(refused)) => refused,
        _ => panic!("the newest goes"),
    };
    assert_eq!((displaced.reason, displaced.queued), (Reason::QueueFull, 4));
    let _second = waiting(both.enter(&quiet, 0));
    assert!(matches!(look(2), Poll::Ready(Err(_))));
    assert!(both.enter(&quiet, 0).is_err(), "two each");
    assert!(both.is_consistent());
    assert!(matches!(look(0), Poll::Pending));
    drop(_running);
    assert!(
        matches!(look(0), Poll::Ready(Ok(_))),
        "who came first runs first"
    );
    assert!(granted(&mut first).is_some(), "then in turn");
    assert!(both.is_consistent());
    assert_eq!(both.figures().rejected[Reason::QueueFull as usize], 4);

    // A backend's own queue is its own matter.
    let one: Arc<Scheduler<Real>> = Scheduler::new(bounds(9, 9), [bounds(1, 3), bounds(1, 3)]);
    let _held = (now(one.enter(&noisy, 0)), now(one.enter(&noisy, 1)));
    let mut others: Vec<_> = (0..3).map(|_| waiting(one.enter(&noisy, 1))).collect();
    let mut here: Vec<_> = (0..3).map(|_| waiting(one.enter(&noisy, 0))).collect();
    let _quiet = waiting(one.enter(&quiet, 0));
    let looked = here[2].poll_unpin(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(looked, Poll::Ready(Err(_))));
    assert!(others.iter_mut().all(|ticket| granted(ticket).is_none()));
    assert!(one.is_consistent());
}

#[test]
fn a_full_backend_holds_up_nobody_elses_calls() {
    let (alice, bob): (Arc<str>, Arc<str>) = ("alice".into(), "bob".into());
    let both: Arc<Scheduler<Real>> = Scheduler::new(bounds(3, 10), [bounds(1, 2), bounds(10, 10)]);
    let first = now(both.enter(&alice, 0));
    let mut second = waiting(both.enter(&alice, 0));
    // The same caller, another backend: there is a place.
    let _other = now(both.enter(&alice, 1));
    let _third = waiting(both.enter(&bob, 0));
    let refused = both
        .enter(&bob, 0)
        .err()
        .expect("this backend's queue is full");
    assert_eq!((refused.bounds, refused.queued), (bounds(1, 2), 2));
    drop(first);
    assert!(granted(&mut second).is_some());
    assert!(both.is_consistent());
}

#[tokio::test(start_paused = true)]
async fn p_19_a_wait_that_takes_too_long_is_refused_by_the_clock() {
    let one = admission(1, 1, 250);
    let alice: Arc<str> = "alice".into();
    let _running = one.admit(&alice, 0).await.expect("a place");
    let began = Instant::now();
    let fault = one.admit(&alice, 0).await.err().expect("no place came");
    assert_eq!(began.elapsed(), Duration::from_millis(250));
    assert_eq!(fault.kind, Kind::Overloaded);
    assert_eq!(fault.public, "SERVER_OVERLOADED");
    assert_eq!(fault.legacy_code, Some(-32001));
    let data: serde_json::Value =
        serde_json::from_str(&format!("{{{}}}", fault.data.expect("data"))).expect("JSON");
    assert_eq!(
        data,
        serde_json::json!({"reason": "queue_timeout", "active": 1, "queued": 0, "max_concurrent": 1,
            "queue_size": 1, "queue_timeout_ms": 250})
    );
    assert_eq!(fault.retry_after_ms, Some(1000));
    assert_eq!(one.figures().queued, 0);
}

#[tokio::test]
async fn p_1_the_hook_hears_of_each_overload() {
    let heard = Arc::new(AtomicU64::new(0));
    let config = AdmissionConfig {
        bounds: bounds(1, 0),
        queue_timeout: Duration::from_secs(1),
        overload_error_code: -32001,
        backends: vec![bounds(10, 10)],
    };
    let counter = heard.clone();
    let hook: Hook = Box::new(move |overload| {
        assert_eq!(overload.refused.reason, Reason::ConcurrencyLimit);
        counter.fetch_add(1, Ordering::Relaxed);
    });
    let one = Admission::new(&config, Some(hook));
    let alice: Arc<str> = "alice".into();
    let _running = one.admit(&alice, 0).await.expect("a place");
    for _ in 0..7 {
        assert!(one.admit(&alice, 0).await.is_err());
    }
    assert_eq!(heard.load(Ordering::Relaxed), 7);
}

#[tokio::test(start_paused = true)]
async fn decision_18_a_parked_call_gives_its_place_back_and_takes_one_to_go_on() {
    let one = admission(1, 1, 1000);
    let alice: Arc<str> = "alice".into();
    let slot = PermitSlot::default();
    let (answer, answered) = tokio::sync::oneshot::channel::<()>();
    let call = {
        let (one, slot, alice) = (one.clone(), slot.clone(), alice.clone());
        async move {
            let work = || async move {
                let _ = answered.await;
                Ok(())
            };
            slot.run(&one, &alice, 0, work).await
        }
    };
    let mut call = tokio::spawn(call);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(one.figures().active, 1);
    slot.park();
    assert_eq!(one.figures().active, 0);
    let other = one.admit(&alice, 0).await.expect("the freed place");
    answer.send(()).expect("still wanted");
    // It has its answer, but no place to go on in.
    assert!(
        tokio::time::timeout(Duration::from_millis(10), &mut call)
            .await
            .is_err()
    );
    let Figures {
        active,
        queued,
        returning,
        ..
    } = one.figures();
    assert_eq!(
        (active, queued, returning),
        (1, 0, 1),
        "P-11: it is no newcomer"
    );
    drop(other);
    call.await.expect("no panic").expect("went on");
    assert_eq!((one.figures().active, one.figures().queued), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn decision_18_a_call_whose_caller_is_asked_holds_no_place_and_is_not_refused_when_it_goes_on()
 {
    let one = admission(1, 0, 1000);
    let alice: Arc<str> = "alice".into();
    let slot = PermitSlot::default();
    let (answer, answered) = tokio::sync::oneshot::channel::<()>();
    let call = {
        let (one, slot, alice) = (one.clone(), slot.clone(), alice.clone());
        async move {
            let inside = slot.clone();
            let work = move || async move {
                let (first, second) = (inside.ask(), inside.ask());
                // Withdrawn by the backend: the other one is still open.
                drop(second);
                let _ = answered.await;
                first.answered().await;
                Ok(())
            };
            slot.run(&one, &alice, 0, work).await
        }
    };
    let mut call = tokio::spawn(call);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(one.figures().active, 0);
    let other = one.admit(&alice, 0).await.expect("the freed place");
    answer.send(()).expect("still wanted");
    // There is no queue at all, and longer than any queue waits.
    let waiting = tokio::time::timeout(Duration::from_secs(60), &mut call).await;
    assert!(waiting.is_err());
    let fault = one.admit(&alice, 0).await.err().expect("no queue");
    let data = fault.data.expect("data");
    assert!(data.contains(r#""queued":0,"max_concurrent":1,"queue_size":0"#));
    drop(other);
    call.await.expect("no panic").expect("went on");
    let figures = one.figures();
    assert_eq!((figures.active, figures.returning), (0, 0));
}

#[test]
fn p_11_calls_that_return_take_nothing_of_the_queue_and_their_turn_like_others() {
    let (noisy, busy, quiet): (Arc<str>, Arc<str>, Arc<str>) =
        ("noisy".into(), "busy".into(), "quiet".into());
    let one = scheduler(1, 2);
    let running = now(one.enter(&noisy, 0));
    let again = || match one.enter_again(&noisy, 0) {
        Entry::Wait(ticket) => ticket,
        Entry::Now(_) => panic!("not waiting"),
    };
    let mut returning = [again(), again(), again()];
    let mut newcomers = [0, 1].map(|_| waiting(one.enter(&busy, 0)));
    assert!(one.is_consistent());
    let figures = one.figures();
    assert_eq!((figures.queued, figures.returning), (2, 3));
    // Whoever has most waiting has nothing that could go: the next one does.
    let fair = waiting(one.enter(&quiet, 0));
    let looked = newcomers[1].poll_unpin(&mut Context::from_waker(Waker::noop()));
    let displaced = match looked {
        Poll::Ready(Err(refused)) => refused,
        _ => panic!("the newest newcomer goes"),
    };
    assert_eq!((displaced.queued, displaced.bounds), (2, bounds(1, 2)));
    let refused = one.enter(&noisy, 0).err().expect("full");
    assert_eq!(refused.queued, 2);
    assert!(one.is_consistent());
    // Callers in turn, and each one's in the order they came.
    drop(newcomers);
    let mut late = waiting(one.enter(&noisy, 0));
    drop(running);
    let first = granted(&mut returning[0]).expect("came first");
    assert!(granted(&mut returning[1]).is_none() && granted(&mut late).is_none());
    drop((first, fair));
    let second = granted(&mut returning[1]).expect("the only caller left");
    drop(second);
    let third = granted(&mut returning[2]).expect("before the newcomer");
    drop(third);
    assert!(granted(&mut late).is_some());
    assert!(one.is_consistent());
}

#[tokio::test]
async fn a_call_that_is_dropped_gives_everything_back_wherever_it_is() {
    let one = admission(1, 1, 10_000);
    let alice: Arc<str> = "alice".into();
    for _ in 0..100 {
        let slots = [PermitSlot::default(), PermitSlot::default()];
        let run = |slot: &PermitSlot| {
            let (slot, one, alice) = (slot.clone(), one.clone(), alice.clone());
            tokio::spawn(async move {
                let work = std::future::pending::<Result<(), Fault>>;
                slot.run(&one, &alice, 0, work).await
            })
        };
        let calls = slots.each_ref().map(run);
        tokio::task::yield_now().await;
        assert_eq!((one.figures().active, one.figures().queued), (1, 1));
        for call in calls {
            call.abort();
            let _ = call.await;
        }
        assert_eq!((one.figures().active, one.figures().queued), (0, 0));
    }
}

/// What may happen next to a random call.
#[derive(Clone, Debug)]
enum Event {
    Arrive {
        caller: u8,
        room: usize,
    },
    /// It ran before.
    Return {
        caller: u8,
        room: usize,
    },
    Reconfigure {
        all: Bounds,
        room: usize,
        here: Bounds,
    },
    Finish(prop::sample::Index),
    Cancel(prop::sample::Index),
    TimeOut(prop::sample::Index),
    Look(prop::sample::Index),
}

fn event() -> impl Strategy<Value = Event> {
    let index = any::<prop::sample::Index>;
    let some = || (1u32..5, 0u32..6).prop_map(|(max, queue)| bounds(max, queue));
    prop_oneof![
        8 => (0u8..4, 0usize..3).prop_map(|(caller, room)| Event::Arrive { caller, room }),
        3 => (0u8..4, 0usize..3).prop_map(|(caller, room)| Event::Return { caller, room }),
        1 => (some(), 0usize..3, some()).prop_map(|(all, room, here)| Event::Reconfigure { all, room, here }),
        4 => index().prop_map(Event::Finish),
        2 => index().prop_map(Event::Cancel),
        2 => index().prop_map(Event::TimeOut),
        4 => index().prop_map(Event::Look),
    ]
}

proptest! {
    /// P-10 to P-15 after every step of any order of arrivals, returns, ends, cancels and time-outs. Where new bounds
    /// are narrower, those who run or wait already may be more than that until they were served; but never do they
    /// become more.
    #[test]
    fn p_10_to_p_15_hold_in_every_order(
        max in 1u32..5, queue in 0u32..6,
        rooms in prop::collection::vec((1u32..4, 0u32..5), 3),
        events in prop::collection::vec(event(), 1..200),
    ) {
        let rooms = rooms.into_iter().map(|(max, queue)| bounds(max, queue));
        let all: Arc<Scheduler<Real>> = Scheduler::new(bounds(max, queue), rooms);
        let (mut running, mut tickets) = (Vec::new(), Vec::new());
        let mut excess = all.excess();
        for event in events {
            let narrows = matches!(event, Event::Reconfigure { .. });
            match event {
                Event::Arrive { caller, room } => match all.enter(&caller.to_string().into(), room) {
                    Ok(Entry::Now(permit)) => running.push(permit),
                    Ok(Entry::Wait(ticket)) => tickets.push((ticket, false)),
                    Err(refused) => prop_assert!(refused.queued >= refused.bounds.queue_size),
                },
                Event::Return { caller, room } => match all.enter_again(&caller.to_string().into(), room) {
                    Entry::Now(permit) => running.push(permit),
                    Entry::Wait(ticket) => tickets.push((ticket, true)),
                },
                Event::Reconfigure { all: bounds, room, here } => all.reconfigure(bounds, [(room, here)]),
                Event::Finish(at) if !running.is_empty() => drop(running.swap_remove(at.index(running.len()))),
                Event::Cancel(at) if !tickets.is_empty() => drop(tickets.swap_remove(at.index(tickets.len()))),
                Event::TimeOut(at) if !tickets.is_empty() => {
                    let at = at.index(tickets.len());
                    // Whoever returns waits for as long as it takes.
                    if !tickets[at].1 {
                        let (ticket, _): (Ticket<Real>, bool) = tickets.swap_remove(at);
                        running.extend(ticket.give_up().ok());
                    }
                }
                Event::Look(at) if !tickets.is_empty() => {
                    let at = at.index(tickets.len());
                    let (ticket, returns) = &mut tickets[at];
                    let looked = ticket.poll_unpin(&mut Context::from_waker(Waker::noop()));
                    if let Poll::Ready(Err(_)) = looked {
                        prop_assert!(!*returns, "it makes room for nobody");
                        drop(tickets.swap_remove(at));
                    } else if let Poll::Ready(Ok(permit)) = looked {
                        running.push(permit);
                        drop(tickets.swap_remove(at));
                    }
                }
                _ => {}
            }
            prop_assert!(all.agrees());
            let before = std::mem::replace(&mut excess, all.excess());
            let more = excess.iter().zip(before).any(|(now, was)| now.0 > was.0 || now.1 > was.1);
            prop_assert!(narrows || !more, "INV-01, INV-02: {:?}", excess);
        }
        drop(tickets);
        prop_assert!(all.agrees());
        prop_assert_eq!(all.figures().active as usize, running.len());
        drop(running);
        let figures = all.figures();
        prop_assert_eq!((figures.active, figures.queued, figures.returning), (0, 0, 0));
    }
}

/// The checker's own lock in place of the real one; everything else is the scheduler that runs.
mod interleavings {
    use shuttle::sync::Mutex as Checked;
    use shuttle::sync::atomic::{AtomicUsize, Ordering};
    use shuttle::{future, thread};

    use super::*;

    impl<T: Send> Lock<T> for Checked<T> {
        fn new(value: T) -> Self {
            Self::new(value)
        }
        fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
            f(&mut self.lock().expect("nobody panics while holding it"))
        }
    }

    /// Waits for its turn, perhaps leaves, perhaps gives up at the worst moment.
    fn one_call(all: &Arc<Scheduler<Checked<State>>>, n: usize, active: &AtomicUsize, max: usize) {
        let subject: Arc<str> = format!("caller {}", n % 2).into();
        let permit = match all.enter(&subject, n % 2) {
            Ok(Entry::Now(permit)) => permit,
            Ok(Entry::Wait(mut ticket)) => match n % 4 {
                0 => return drop(ticket),
                1 => {
                    drop(ticket.poll_unpin(&mut Context::from_waker(Waker::noop())));
                    thread::yield_now();
                    return;
                }
                2 => match ticket.give_up() {
                    Ok(permit) => permit,
                    Err(_) => return,
                },
                _ => match future::block_on(ticket) {
                    Ok(permit) => permit,
                    Err(_) => return,
                },
            },
            Err(_) => return,
        };
        run(all, permit, active, max);
        // Its caller was asked something, and answered.
        if n > 3 {
            thread::yield_now();
            let entry = all.enter_again(&subject, n % 2);
            assert!(all.is_consistent(), "INV-02");
            let permit = match entry {
                Entry::Now(permit) => permit,
                Entry::Wait(ticket) => match future::block_on(ticket) {
                    Ok(permit) => permit,
                    Err(refused) => panic!("it ran before: {refused:?}"),
                },
            };
            run(all, permit, active, max);
        }
    }

    fn run(
        all: &Arc<Scheduler<Checked<State>>>,
        permit: scheduler::Permit<Checked<State>>,
        active: &AtomicUsize,
        max: usize,
    ) {
        let now = active.fetch_add(1, Ordering::SeqCst) + 1;
        assert!(now <= max, "INV-01");
        assert!(all.is_consistent());
        thread::yield_now();
        active.fetch_sub(1, Ordering::SeqCst);
        drop(permit);
    }

    #[test]
    fn p_18_no_interleaving_leaks_a_permit_or_loses_a_wake() {
        let body = || {
            let all: Arc<Scheduler<Checked<State>>> =
                Scheduler::new(bounds(2, 2), [bounds(1, 1), bounds(2, 2)]);
            let active = Arc::new(AtomicUsize::new(0));
            let threads: Vec<_> = [3, 7, 0, 1, 2, 11]
                .into_iter()
                .map(|n| {
                    let (all, active) = (all.clone(), active.clone());
                    thread::spawn(move || one_call(&all, n, &active, 2))
                })
                .collect();
            for thread in threads {
                thread.join().expect("no panic");
            }
            let figures = all.figures();
            let left = (figures.active, figures.queued, figures.returning);
            assert_eq!(left, (0, 0, 0), "INV-06");
            assert!(all.is_consistent());
        };
        shuttle::check_random(body, 2000);
        shuttle::check_pct(body, 2000, 3);
    }
}
