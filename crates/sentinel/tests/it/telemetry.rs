//! Metrics and traces, as their readers get them.

mod metrics;
mod traces;
