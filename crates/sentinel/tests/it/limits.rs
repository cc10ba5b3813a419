//! What one caller or all of them may use: sizes, times, rates, concurrency.

mod bounds;
mod load;
mod overload;
mod sharing;
mod slow_peers;
