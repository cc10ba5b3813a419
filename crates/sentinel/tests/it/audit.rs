//! Every answered request has its record, whatever fails.

mod faults;
mod records;
