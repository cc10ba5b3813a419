//! Operations over REST and JSON-RPC, and the documents about them.

mod calls;
mod confirmation;
mod conversations;
mod documents;
mod errors;
mod listeners;
mod surfaces;
