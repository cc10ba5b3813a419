//! The verbs of one operation's path. The table of routes knows those of all operations.

use sentinel_core::{Addressing, Fault};

use super::super::exchange::Exchange;
use super::{segment, visible_tool};

/// Lists of the surface's own, at paths where operations of these names would be.
const LISTS: [&str; 2] = ["catalog", "resources"];

/// Whether the surface has a list of its own at the path of an operation of this name.
pub(super) fn is_list(name: &str) -> bool {
    LISTS.contains(&name)
}

/// As `Allow` lists them; `None` where there is nothing to be seen.
pub(in super::super) fn of(exchange: &Exchange<'_>) -> Option<&'static str> {
    let name = segment(exchange.rest).ok()?;
    let tool = visible_tool(exchange, &name, Addressing::Name);
    let has_get = is_list(&name) || tool.as_ref().is_some_and(|tool| tool.is_read_only);
    match (has_get, tool.is_some()) {
        (true, true) => Some("POST, GET, HEAD"),
        (true, false) => Some("GET, HEAD"),
        (false, true) => Some("POST"),
        (false, false) => None,
    }
}

/// Refuses a call at the path of a list, unless an operation has that name.
pub(super) fn check_post(exchange: &Exchange<'_>, name: &str) -> Result<(), Fault> {
    if is_list(name) && visible_tool(exchange, name, Addressing::Name).is_none() {
        return Err(exchange.only("GET, HEAD", "this is a list: read it with GET"));
    }
    Ok(())
}
