//! Start, reload and shutdown of a gateway.

mod every_key;
mod first_lists;
mod reload;
mod shutdown;
mod starting;
