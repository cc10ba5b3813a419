//! Who callers are, and what nobody gets to see or forge.

mod authentication;
mod canaries;
mod endpoints;
mod forgeries;
