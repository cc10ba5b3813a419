//! Plain functions: what of them becomes an operation, and what their calls answer.

mod bounds;
mod catalog;
mod surfaces;
mod values;
