//! The commands of `sentinel` and the admin API behind them.

mod admin;
mod commands;
mod operator;
mod pg;
