//! Who sees and calls what: policy, approvals of tools, the kill switch, reviews.

mod govern;
mod hidden;
mod killing;
mod order;
mod pins;
mod purging;
mod revoked_rights;
mod rug_pulls;
