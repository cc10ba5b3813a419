//! The core: calls, policy, catalog, and the walk of each call.
//!
//! The core has the shape of the modern era and speaks neither: surfaces translate their callers to `Call`, `Ask`,
//! `Notice` and `Reply`, and backends translate those to their servers. So there are two adapters, not four
//! combinations.
//!
//! Not here: sockets, processes, HTTP statuses and JSON-RPC codes (`surfaces::rescue`).

pub mod admission;
pub mod arguments;
mod attribution;
pub mod audit;
pub mod backend;
pub mod builtin;
pub mod cache;
pub mod caller;
pub mod capabilities;
pub mod catalog;
pub mod circuit;
pub mod clock;
pub mod cost;
mod digest;
pub mod fault;
pub mod http_call;
pub mod identity;
mod in_flight;
pub mod invocation;
pub mod line;
pub mod map;
pub mod metrics;
pub mod offer;
pub mod operation;
pub mod park;
pub mod pieces;
pub mod policy;
pub mod queue;
pub mod random;
mod reply;
pub mod route;
pub mod rows;
pub mod seal;
pub mod state_file;
pub mod tags;
mod tasks;
pub mod trace;
pub mod updates;
pub mod walk;

pub use audit::{Auditor, Entry};
pub use backend::{Backend, Call, Description, Health, Status, Target};
pub use caller::{Addressing, Caller, LogLevel};
pub use capabilities::{CapabilitySet, ClientCapabilities};
pub use catalog::{Catalog, Registry};
pub use fault::{Fault, Kind, Side};
pub use http_call::{HttpAnswer, HttpCall};
pub use identity::Identity;
pub use in_flight::Hold;
pub use invocation::{
    Action, CallId, Extra, Invocation, Refusals, Round, TaskAction, TaskOf, View,
};
pub use line::{Answer, Ask, Conversation, Event, Line, Notice, Step};
pub use offer::{Freshness, Item, ItemKind, Offer, Reach, ServerCapabilities};
pub use operation::Operation;
pub use pieces::{Beginning, Feed};
pub use policy::Policy;
pub use reply::{HTTP_META, Reply};
pub use route::{Route, RouteKind, RoutePattern};
pub use rows::RowSender;
pub use walk::{Walk, walk};
