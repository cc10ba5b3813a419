//! What the console asks of the gateway: the page itself and signing in, figures that go on, records and the stories of calls, and
//! what operators change.

mod access;
mod configuration;
mod history;
mod importing;
mod live;
mod records;
mod signing_in;
mod stopping;
mod stories;
mod streams;
mod visits;
