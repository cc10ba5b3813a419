//! One bell per topic that somebody listens to.
//!
//! Ringing wakes those who listen now and remembers nothing, so a slow listener costs nothing: it
//! looks at the store after waking, and before its first wait.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Bounded by the number of waits: a topic lives while somebody listens.
#[derive(Default)]
pub(super) struct Bells {
    topics: Mutex<HashMap<String, Arc<Notify>>>,
}

impl Bells {
    pub(super) fn listen(&self, topic: &str) -> Listening<'_> {
        let mut topics = self.topics.lock();
        let bell = topics.entry(topic.to_owned()).or_default().clone();
        Listening {
            bells: self,
            topic: topic.to_owned(),
            bell,
        }
    }

    pub(super) fn ring(&self, topic: &str) {
        let bell = self.topics.lock().get(topic).cloned();
        if let Some(bell) = bell {
            bell.notify_waiters();
        }
    }

    pub(super) fn ring_all(&self) {
        self.topics
            .lock()
            .values()
            .for_each(|bell| bell.notify_waiters());
    }
}

pub(super) struct Listening<'a> {
    bells: &'a Bells,
    topic: String,
    bell: Arc<Notify>,
}

impl Deref for Listening<'_> {
    type Target = Notify;

    fn deref(&self) -> &Notify {
        &self.bell
    }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        let mut topics = self.bells.topics.lock();
        // The map's own, and ours: nobody else listens. A ring that holds one for a moment leaves
        // the topic to the next listener.
        if Arc::strong_count(&self.bell) == 2 {
            topics.remove(&self.topic);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_topic_lives_while_somebody_listens() {
        let bells = Bells::default();
        let (one, two) = (bells.listen("a"), bells.listen("a"));
        {
            let mut rung = std::pin::pin!(one.notified());
            rung.as_mut().enable();
            bells.ring("b");
            bells.ring("a");
            rung.await;
        }
        drop(two);
        assert_eq!(bells.topics.lock().len(), 1);
        drop(one);
        assert!(bells.topics.lock().is_empty());
    }
}
