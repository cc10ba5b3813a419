//! sentinel-wire
mod framing;
pub mod lines;
pub mod sse;
