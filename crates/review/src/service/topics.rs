//! One `Notify` per topic that has listeners.
//!
//! A notification wakes the present listeners and is not stored: a listener reads the store after
//! waking, and before its first wait.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Bounded by the number of waits: a topic exists while it has listeners.
#[derive(Default)]
pub(super) struct Topics {
    topics: Mutex<HashMap<String, Arc<Notify>>>,
}

impl Topics {
    pub(super) fn listen(&self, topic: &str) -> Subscription<'_> {
        let mut topics = self.topics.lock();
        let notify = topics.entry(topic.to_owned()).or_default().clone();
        Subscription {
            all: self,
            topic: topic.to_owned(),
            notify,
        }
    }

    pub(super) fn notify(&self, topic: &str) {
        let notify = self.topics.lock().get(topic).cloned();
        if let Some(notify) = notify {
            notify.notify_waiters();
        }
    }

    pub(super) fn notify_all(&self) {
        self.topics
            .lock()
            .values()
            .for_each(|notify| notify.notify_waiters());
    }
}

pub(super) struct Subscription<'a> {
    all: &'a Topics,
    topic: String,
    notify: Arc<Notify>,
}

impl Deref for Subscription<'_> {
    type Target = Notify;

    fn deref(&self) -> &Notify {
        &self.notify
    }
}

impl Drop for Subscription<'_> {
    fn drop(&mut self) {
        let mut topics = self.all.topics.lock();
        // Two references: the map's and ours. A concurrent `notify` may hold a third, and the topic
        // then stays until its next listener leaves.
        if Arc::strong_count(&self.notify) == 2 {
            topics.remove(&self.topic);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_topic_lives_while_somebody_listens() {
        let topics = Topics::default();
        let (one, two) = (topics.listen("a"), topics.listen("a"));
        {
            let mut rung = std::pin::pin!(one.notified());
            rung.as_mut().enable();
            topics.notify("b");
            topics.notify("a");
            rung.await;
        }
        drop(two);
        assert_eq!(topics.topics.lock().len(), 1);
        drop(one);
        assert!(topics.topics.lock().is_empty());
    }
}
