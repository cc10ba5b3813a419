//! What the console asks of the gateway.

mod signing_in;
mod visits;
