//! Start, reload and shutdown of a gateway.

mod first_lists;
mod reload;
mod shutdown;
mod starting;
