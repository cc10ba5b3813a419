//! What backends declare in `Offer::routes`, as requests find it: paths, JSON-RPC methods, documents; and what a call tells its
//! backend about its caller.

mod accounts;
mod documents;
mod paths;
mod rows;
mod rpc;
mod shop;
mod site;
