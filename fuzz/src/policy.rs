//! URIs, as rules of policies read them.

use sentinel_core::Operation;
use sentinel_core::offer::ItemKind;
use sentinel_core::policy::{Grant, Role};

/// What is denied as it is written is denied, whatever else it may be read as.
pub(crate) fn uri(data: &[u8]) {
    let Ok(uri) = std::str::from_utf8(data) else {
        return;
    };
    let operation = Operation::unlisted(Some(ItemKind::Resource), 0, &"be".into(), uri);
    let operation = operation.spelt_out(std::iter::empty());
    let denied = format!("be.{uri}");
    let role = Role::new(["*"], [denied.as_str()]);
    assert_eq!(role.grant(&operation), Grant::NONE, "{uri:?}");
}
