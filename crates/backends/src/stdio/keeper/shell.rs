//! The task that keeps one child: waits for events, and performs the supervisor's actions.

use std::future::pending;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sentinel_core::Health;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until};

use super::super::life::{Ended, Ready, live};
use super::super::supervisor::{Action, Admission, Event, Presence};
use super::{Phase, RESTARTS_MAX, Shell, Woken};

impl Shell {
    pub(super) fn begun(mut self) -> Self {
        self.on(Event::Begin);
        // Nothing is remembered of a lazy backend that never ran: it must run once to be listed.
        if self.plan.lists && self.plan.publisher.offer().is_none() {
            self.plan.publisher.first_asked();
            self.on(Event::Wanted);
        }
        self
    }

    pub(super) async fn run(mut self) {
        while !self.supervisor.is_over() {
            let woken = self.next().await;
            self.wake(woken);
        }
    }

    async fn next(&mut self) -> Woken {
        let wake_at = self.supervisor.next_wake();
        let time = async {
            match wake_at {
                Some(at) => sleep_until(at).await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            stop = stopped(&mut self.stopping), if !self.asked_to_stop => { let () = stop; Woken::Stop }
            ready = arrived(&mut self.ready) => Woken::Ready(Box::new(ready)),
            Some(ended) = self.life.join_next() => Woken::Ended(ended.unwrap_or_else(|panic| Ended {
                served: false,
                why: format!("its task failed: {panic}"),
            })),
            ok = pinged(&mut self.ping) => Woken::Ping(ok),
            () = self.wanted.notified() => Woken::Wanted,
            Some(settled) = self.restarts.recv() => Woken::Restart(settled),
            () = time => Woken::Time,
        }
    }

    fn wake(&mut self, woken: Woken) {
        match woken {
            Woken::Wanted => self.on(Event::Wanted),
            Woken::Restart(settled) => {
                self.restarting.truncate(RESTARTS_MAX - 1);
                self.restarting.push(settled);
                self.on(Event::Restart);
            }
            Woken::Ready(ready) => self.up(*ready),
            Woken::Ended(ended) => self.down(ended),
            Woken::Ping(ok) => {
                self.ping = None;
                self.on(if ok { Event::Pong } else { Event::PingFailed });
            }
            Woken::Time => {
                let in_flight = self
                    .session
                    .as_ref()
                    .map_or(0, |session| session.calls_in_flight());
                let last_call = match &self.session {
                    _ if self.plan.is_followed() => Instant::now(),
                    Some(session) => session.last_call(),
                    None => self.spawned,
                };
                self.on(Event::Tick {
                    in_flight,
                    last_call,
                });
            }
            Woken::Stop => {
                self.asked_to_stop = true;
                self.facts.lock().health = Health::Down;
                self.on(Event::Stop);
            }
        }
    }

    fn up(&mut self, ready: Ready) {
        self.ready = None;
        let start_up = self.spawned.elapsed();
        let revision = ready.session.revision();
        tracing::info!(backend = %self.plan.name, %revision, start_up_ms = start_up.as_millis() as u64, "up");
        {
            let mut facts = self.facts.lock();
            facts.revision = Some(revision);
            facts.start_up = Some(start_up);
            facts.problem = None;
        }
        if let Some(offer) = ready.offer {
            // Calls made right after the publication wait until the child is up.
            self.phase.send_replace(Phase::Starting);
            self.plan.publisher.publish(offer);
            self.offer_known = true;
        }
        self.session = Some(ready.session);
        self.on(Event::Ready);
    }

    fn down(&mut self, ended: Ended) {
        let was_up = self.session.take().is_some();
        // The sender is consumed when the process is asked to end.
        self.died = self.end.take().is_some();
        (self.ready, self.ping) = (None, None);
        let why = &ended.why;
        if self.died {
            tracing::warn!(backend = %self.plan.name, was_up, "{why}");
            self.facts.lock().problem = Some(ended.why);
        } else {
            tracing::debug!(backend = %self.plan.name, "{why}");
        }
        self.on(Event::Exited {
            served: ended.served,
        });
        if self.died {
            self.come_back();
        }
    }

    /// Restarts a lazy child without a call if callers follow its resources.
    fn come_back(&self) {
        if let Some(at) = self
            .supervisor
            .sleeps_until()
            .filter(|_| self.plan.is_followed())
        {
            let wanted = self.wanted.clone();
            tokio::spawn(async move {
                sleep_until(at).await;
                wanted.notify_one();
            });
        }
    }

    fn on(&mut self, event: Event) {
        for action in self.supervisor.on(event, Instant::now()) {
            match action {
                Action::Spawn => self.spawn(),
                Action::End => drop(self.end.take().map(|end| end.send(()))),
                Action::Ping => {
                    self.ping = self
                        .session
                        .clone()
                        .map(|session| async move { session.ping().await }.boxed());
                }
                // Waiting calls see the phase that is set below.
                Action::FailWaiting => {}
                Action::Show(presence) => self.show(presence),
            }
        }
        self.set_phase();
    }

    fn spawn(&mut self) {
        let (ready, arriving) = oneshot::channel();
        let (end, ending) = oneshot::channel();
        (self.ready, self.end) = (Some(arriving), Some(end));
        self.spawned = Instant::now();
        self.life.spawn(live(self.plan.clone(), ready, ending));
        let mut facts = self.facts.lock();
        facts.restarts = facts
            .restarts
            .saturating_add(u32::from(std::mem::take(&mut self.died)));
        if facts.health == Health::Asleep {
            facts.health = Health::Starting;
        }
    }

    fn set_phase(&mut self) {
        let now = Instant::now();
        let phase = match self.supervisor.admit(now) {
            Admission::Go => self.session.clone().map_or(Phase::Starting, Phase::Up),
            Admission::Wait => Phase::Starting,
            Admission::Later { retry_after } => match self.supervisor.sleeps_until() {
                Some(not_before) => Phase::Asleep { not_before },
                None => Phase::Later {
                    at: now + retry_after,
                },
            },
            Admission::Never => Phase::Never,
        };
        self.phase.send_replace(phase);
        if self.supervisor.is_settled() {
            for settled in self.restarting.drain(..) {
                // The operator's connection may be closed.
                let _ = settled.send(());
            }
        }
    }

    fn show(&mut self, presence: Presence) {
        let (health, next_start) = match presence {
            Presence::Up => (Health::Up, None),
            Presence::Restarting { .. } => (Health::Failing, None),
            Presence::Asleep => (Health::Asleep, None),
            Presence::Out { next_start } => (Health::Down, next_start),
        };
        let before = {
            let mut facts = self.facts.lock();
            facts.next_start = next_start;
            std::mem::replace(&mut facts.health, health)
        };
        if let Some(at) = next_start {
            let next_start_s = at
                .saturating_duration_since(Instant::now())
                .as_secs_f32()
                .ceil();
            tracing::error!(backend = %self.plan.name, next_start_s, "given up after max_restarts: out of the catalog, started again later or by `sentinel restart {}`", self.plan.name);
        }
        if !self.plan.lists {
            return;
        }
        let publisher = &self.plan.publisher;
        match presence {
            // A new process has published its lists itself.
            Presence::Up if before == Health::Down && !std::mem::take(&mut self.offer_known) => {
                publisher.restore();
            }
            Presence::Up => self.offer_known = false,
            Presence::Restarting { .. } | Presence::Asleep => publisher.tried(),
            Presence::Out { .. } => publisher.withdraw(),
        }
    }
}

async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // An error means that every handle was dropped, and with them every caller.
    let _ = stopping.wait_for(|stop| *stop).await;
}

async fn arrived(ready: &mut Option<oneshot::Receiver<Ready>>) -> Ready {
    let Some(receiver) = ready else {
        return pending().await;
    };
    match receiver.await {
        Ok(value) => value,
        // The process ended first, which is reported separately.
        Err(_) => {
            *ready = None;
            pending().await
        }
    }
}

async fn pinged(ping: &mut Option<BoxFuture<'static, bool>>) -> bool {
    match ping {
        Some(ping) => ping.await,
        None => pending().await,
    }
}
