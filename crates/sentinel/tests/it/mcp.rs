//! The protocol: revisions, sessions, streams, names, translation between eras.

mod asks;
mod caching;
mod capable;
mod eras;
mod following;
mod ids;
mod in_flight;
mod large;
mod many_callers;
mod matrix;
mod names;
mod others;
mod quadrants;
mod resume;
mod revisions;
mod schemas;
mod sessions;
mod sse2024;
mod tags;
mod tasks;
mod visits;
