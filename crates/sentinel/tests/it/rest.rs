//! Operations over REST and JSON-RPC, and the documents about them.

mod asynchronous;
mod binary;
mod calls;
mod catalog;
mod confirmation;
mod conversations;
mod documents;
mod errors;
mod idempotency;
mod listeners;
mod outputs;
mod pages;
mod posting;
mod refusals;
mod surfaces;
mod upstream;
