//! Servers over stdio and HTTP that start, fail, change and come back.

mod children;
mod lazy;
mod openapi;
mod orphans;
mod servers;
mod shop;
