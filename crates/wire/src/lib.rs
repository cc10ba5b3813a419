//! sentinel-wire
mod framing;
pub mod header;
pub mod lines;
pub mod sse;
pub mod template;
