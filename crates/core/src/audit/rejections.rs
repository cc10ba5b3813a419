//! Rejected requests, counted by address and second, so that a flood of them does not fill the disk.
//!
//! The first of a second is recorded at once, so that it survives a crash; the others of that second become one more
//! record with their count.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use parking_lot::Mutex;

use crate::fault::Kind;

/// Addresses counted separately within a second; the others are counted together.
const ADDRESSES_MAX: usize = 4096;
/// The address under which the others are counted.
const OTHER_ADDRESSES: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Rejections from one address within one second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RejectionCount {
    pub(super) address: IpAddr,
    pub(super) kind: Kind,
    pub(super) second: u64,
    pub(super) count: u64,
}

#[derive(Default)]
pub(super) struct Rejections(Mutex<HashMap<(IpAddr, Kind), Tally>>);

struct Tally {
    second: u64,
    /// Without the first, which has its own record.
    more: u64,
}

impl Rejections {
    /// Counts a rejection; returns what is to be recorded now.
    pub(super) fn count_one(
        &self,
        address: IpAddr,
        kind: Kind,
        second: u64,
    ) -> Vec<RejectionCount> {
        let mut tallies = self.0.lock();
        let mut key = (network(address), kind);
        if tallies.len() >= ADDRESSES_MAX && !tallies.contains_key(&key) {
            key.0 = OTHER_ADDRESSES;
        }
        let counted = |second, count| RejectionCount {
            address: key.0,
            kind,
            second,
            count,
        };
        match tallies.get_mut(&key) {
            Some(tally) if tally.second == second => {
                tally.more += 1;
                Vec::new()
            }
            other => {
                let before = other.filter(|tally| tally.more > 0);
                let mut now: Vec<RejectionCount> = before
                    .map(|tally| counted(tally.second, tally.more))
                    .into_iter()
                    .collect();
                now.push(counted(second, 1));
                tallies.insert(key, Tally { second, more: 0 });
                now
            }
        }
    }

    /// Ends the seconds before this one.
    pub(super) fn sweep(&self, second: u64) -> Vec<RejectionCount> {
        let mut over = Vec::new();
        self.0.lock().retain(|(address, kind), tally| {
            let kept = tally.second >= second;
            if !kept && tally.more > 0 {
                over.push(RejectionCount {
                    address: *address,
                    kind: *kind,
                    second: tally.second,
                    count: tally.more,
                });
            }
            kept
        });
        over
    }
}

/// A single site has a whole /64 of IPv6.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_first_of_a_second_is_told_at_once_and_the_rest_together() {
        let rejections = Rejections::default();
        let count_one = |address, second| -> Vec<u64> {
            let told = rejections.count_one(at(address), Kind::Unauthorized, second);
            told.iter().map(|counted| counted.count).collect()
        };
        assert_eq!(count_one("10.0.0.1", 5), [1]);
        assert!(count_one("10.0.0.1", 5).is_empty());
        assert!(count_one("10.0.0.1", 5).is_empty());
        assert_eq!(count_one("10.0.0.2", 5), [1]);
        assert_eq!(count_one("10.0.0.1", 6), [2, 1]);
        assert_eq!(count_one("10.0.0.2", 7), [1]);
        assert!(rejections.sweep(6).is_empty(), "6 is not over");
        assert!(count_one("10.0.0.2", 7).is_empty());
        let over = rejections.sweep(8);
        assert_eq!(over.iter().map(|k| k.count).sum::<u64>(), 1);
    }

    #[test]
    fn addresses_are_bounded_and_a_house_is_one() {
        let rejections = Rejections::default();
        for n in 0..2 * ADDRESSES_MAX as u32 {
            rejections.count_one(Ipv4Addr::from_bits(n).into(), Kind::Unauthorized, 1);
        }
        assert!(rejections.0.lock().len() <= ADDRESSES_MAX + 1);
        assert_eq!(network(at("2001:db8::1:2:3:4")), at("2001:db8::"));
        assert_eq!(network(at("::ffff:10.0.0.1")), at("10.0.0.1"));
    }
}
