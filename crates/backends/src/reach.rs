//! Which addresses may be connected to when a party other than the operator names them.
//!
//! A name is resolved, every address of it is checked, and the connection goes to one of the addresses that were checked: a second
//! look-up could answer something else. Addresses in odd spellings (`0x7f.1`, `2130706433`) are what they resolve to.
//!
//! Not here: who is trusted without a check (the code that makes an `Address`), redirects (each is a new address).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::TcpStream;

/// The host has an address that only this machine or its network reaches.
#[derive(Debug, thiserror::Error)]
#[error("{host} has the address {address}, which is not public")]
pub(crate) struct NotPublic {
    host: String,
    address: IpAddr,
}

/// Connects to a host all of whose addresses are public.
pub(crate) async fn connect_public(host: &str, port: u16) -> io::Result<TcpStream> {
    let found: Vec<SocketAddr> = tokio::net::lookup_host((host, port)).await?.collect();
    if let Some(private) = found.iter().find(|address| !is_public(address.ip())) {
        let refused = NotPublic {
            host: host.to_owned(),
            address: private.ip(),
        };
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, refused));
    }
    TcpStream::connect(&*found).await
}

/// Whether an address is one of the public internet.
pub(crate) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let refused = match (a, b, c) {
        // This network, private, loopback, link-local; multicast and what lies above it.
        (0 | 10 | 127, ..) | (169, 254, _) | (192, 168, _) | (224.., ..) => true,
        (172, 16..=31, _) => true,
        // Carrier-grade NAT, protocol assignments, benchmarks.
        (100, 64..=127, _) | (192, 0, 0) | (198, 18 | 19, _) => true,
        // Documentation, and the anycast of 6to4 relays.
        (192, 0, 2) | (198, 51, 100) | (203, 0, 113) | (192, 88, 99) => true,
        _ => false,
    };
    !refused
}

/// Global unicast is 2000::/3. What is not in it (loopback, unique local, link-local, multicast, mapped and translated IPv4
/// addresses) is refused without a list.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let global = segments[0] & 0xe000 == 0x2000;
    let refused = match (segments[0], segments[1]) {
        // Teredo, other special assignments, documentation.
        (0x2001, 0..=0x01ff | 0x0db8) => true,
        // 6to4 carries an IPv4 address that may be anybody's.
        (0x2002, _) => true,
        (0x3fff, 0..=0x0fff) => true,
        _ => false,
    };
    global && !refused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o_8_only_public_addresses_pass() {
        for private in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "203.0.113.9",
            "224.0.0.1",
            "239.1.1.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "::7f00:1",
            "64:ff9b::7f00:1",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::1",
            "3fff::1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(
                !is_public(private.parse().expect("an address")),
                "{private}"
            );
        }
        for public in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "193.168.1.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "2001:4860:4860::8888",
            "2606:4700::1111",
            "2a00:1450::1",
        ] {
            assert!(is_public(public.parse().expect("an address")), "{public}");
        }
    }

    #[tokio::test]
    async fn o_8_a_name_is_what_it_resolves_to() {
        for host in [
            "localhost",
            "127.0.0.1",
            "2130706433",
            "0x7f.1",
            "::1",
            "::ffff:127.0.0.1",
        ] {
            let refused = connect_public(host, 9).await.expect_err(host);
            assert_ne!(refused.kind(), io::ErrorKind::ConnectionRefused, "{host}");
        }
        let refused = connect_public("localhost", 9).await.expect_err("refused");
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    }
}
