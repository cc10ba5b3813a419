//! The server's offer to callers who can be asked.
//!
//! A modern server gets the capabilities with each request. A legacy one gets them in its handshake, so a session is
//! opened for the reading and ended after it.

use sentinel_core::{CapabilitySet, Fault, Kind, Offer};

use super::speak::{self, Speaker};
use super::{Inner, keep};
use crate::discover::Greeting;
use crate::relay;

pub(super) async fn offer_for(inner: &Inner, set: CapabilitySet) -> Result<Offer, Fault> {
    let ready = inner.ready().await?;
    let revision = ready.base.revision;
    let declared = relay::declaration(&set.capabilities(), revision);
    let lists = if revision.is_modern() {
        let greeting = Greeting {
            declared: declared.into(),
            ..(*ready.greeting).clone()
        };
        let speaker = Speaker::within(inner, &ready.base);
        keep::read(inner, &speaker, &greeting).await?
    } else {
        let (upstream, greeting) = speak::introduce(inner, revision, &declared).await?;
        let speaker = Speaker::within(inner, &upstream);
        let lists = keep::read(inner, &speaker, &greeting).await;
        keep::end_session(inner, &upstream).await;
        lists?
    };
    match lists.tools_refused {
        None => Ok(lists.offer),
        Some(why) => {
            let text = "the backend does not list its tools to callers who can be asked";
            Err(Fault::new(Kind::BackendUnavailable, text).because(why))
        }
    }
}
