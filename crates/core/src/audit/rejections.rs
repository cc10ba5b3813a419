//! Those who were not let in, counted by address and second: whoever knocks a thousand times must not
//! fill the disk.
//!
//! The first of a second has its record at once, so that it survives whatever happens next; those that
//! follow within the second are one more record with their number.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use parking_lot::Mutex;

use crate::fault::Kind;

/// Addresses told apart within a second; the others of that second are counted together.
const ADDRESSES_MAX: usize = 4096;
/// What the others are counted under.
const ELSEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// So many were turned away from there within one second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Knocks {
    pub(super) address: IpAddr,
    pub(super) kind: Kind,
    pub(super) second: u64,
    pub(super) count: u64,
}

#[derive(Default)]
pub(super) struct Doorstep(Mutex<HashMap<(IpAddr, Kind), Tally>>);

struct Tally {
    second: u64,
    /// Beyond the first, which has its record.
    more: u64,
}

impl Doorstep {
    /// Somebody was turned away; gives what is to be recorded now.
    pub(super) fn knock(&self, address: IpAddr, kind: Kind, second: u64) -> Vec<Knocks> {
        let mut tallies = self.0.lock();
        let mut key = (network(address), kind);
        if tallies.len() >= ADDRESSES_MAX && !tallies.contains_key(&key) {
            key.0 = ELSEWHERE;
        }
        let knocks = |second, count| Knocks {
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
                let mut now: Vec<Knocks> = before
                    .map(|tally| knocks(tally.second, tally.more))
                    .into_iter()
                    .collect();
                now.push(knocks(second, 1));
                tallies.insert(key, Tally { second, more: 0 });
                now
            }
        }
    }

    /// The seconds before this one are over.
    pub(super) fn sweep(&self, second: u64) -> Vec<Knocks> {
        let mut over = Vec::new();
        self.0.lock().retain(|(address, kind), tally| {
            let kept = tally.second >= second;
            if !kept && tally.more > 0 {
                over.push(Knocks {
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

/// One house has a whole /64 of IPv6 to knock from.
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
        let step = Doorstep::default();
        let knock = |address, second| -> Vec<u64> {
            let told = step.knock(at(address), Kind::Unauthorized, second);
            told.iter().map(|knocks| knocks.count).collect()
        };
        assert_eq!(knock("10.0.0.1", 5), [1]);
        assert!(knock("10.0.0.1", 5).is_empty());
        assert!(knock("10.0.0.1", 5).is_empty());
        assert_eq!(knock("10.0.0.2", 5), [1]);
        assert_eq!(knock("10.0.0.1", 6), [2, 1]);
        assert_eq!(knock("10.0.0.2", 7), [1]);
        assert!(step.sweep(6).is_empty(), "6 is not over");
        assert!(knock("10.0.0.2", 7).is_empty());
        let over = step.sweep(8);
        assert_eq!(over.iter().map(|k| k.count).sum::<u64>(), 1);
    }

    #[test]
    fn addresses_are_bounded_and_a_house_is_one() {
        let step = Doorstep::default();
        for n in 0..2 * ADDRESSES_MAX as u32 {
            step.knock(Ipv4Addr::from_bits(n).into(), Kind::Unauthorized, 1);
        }
        assert!(step.0.lock().len() <= ADDRESSES_MAX + 1);
        assert_eq!(network(at("2001:db8::1:2:3:4")), at("2001:db8::"));
        assert_eq!(network(at("::ffff:10.0.0.1")), at("10.0.0.1"));
    }
}
