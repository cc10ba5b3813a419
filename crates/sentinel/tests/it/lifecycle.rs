//! Start, reload and shutdown of a gateway.

mod reload;
mod shutdown;
mod starting;
