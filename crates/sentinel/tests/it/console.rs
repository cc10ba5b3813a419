//! What the console asks of the gateway: the page itself and signing in, figures that go on, records and the stories of calls.

mod history;
mod live;
mod records;
mod signing_in;
mod stories;
mod streams;
mod visits;
