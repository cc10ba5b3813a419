//! Servers over stdio and HTTP that start, fail, change and come back.

mod children;
mod lazy;
mod orphans;
mod servers;
