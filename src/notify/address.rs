//! Which addresses a webhook may go to. Whoever can choose a URL, or the answer of a name server, must
//! not get requests into networks that only this machine can reach.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// What a name leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Public,
    Loopback,
    /// Private networks, carrier networks, unique local addresses.
    Private,
    /// Link-local (where clouds keep their metadata), multicast, reserved: never.
    Closed,
}

#[must_use]
pub(crate) fn place(address: IpAddr) -> Place {
    match address {
        IpAddr::V4(v4) => place_of_v4(v4),
        IpAddr::V6(v6) => place_of_v6(v6),
    }
}

fn place_of_v4(address: Ipv4Addr) -> Place {
    let [a, b, c, _] = address.octets();
    match (a, b, c) {
        (127, ..) => Place::Loopback,
        (10, ..) | (192, 168, _) | (172, 16..=31, _) | (100, 64..=127, _) => Place::Private,
        (0 | 224..=255, ..) | (169, 254, _) | (192, 0, 0) | (198, 18..=19, _) => Place::Closed,
        (192, 0, 2) | (198, 51, 100) | (203, 0, 113) => Place::Closed,
        _ => Place::Public,
    }
}

fn place_of_v6(address: Ipv6Addr) -> Place {
    // The metadata service of one cloud is in the private range.
    const METADATA: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);
    if let Some(v4) = address.to_ipv4_mapped() {
        return place_of_v4(v4);
    }
    let parts = address.segments();
    let inner = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        place_of_v4(Ipv4Addr::new(a, b, c, d))
    };
    match parts {
        [0, 0, 0, 0, 0, 0, 0, 1] => Place::Loopback,
        [0, 0, 0, 0, 0, 0, ..] => Place::Closed,
        // Translated and tunnelled IPv4.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => inner(high, low),
        [0x64, 0xff9b, ..] => Place::Closed,
        _ if address == METADATA => Place::Closed,
        [0xfc00..=0xfdff, ..] => Place::Private,
        [0xfe80..=0xffff, ..] | [0x2001, 0xdb8, ..] => Place::Closed,
        _ => Place::Public,
    }
}

/// Resolves names, and gives only what may be connected to. The connection is made to these very
/// addresses, so a second answer of the name server changes nothing.
#[derive(Debug)]
pub(super) struct Guard {
    /// The URL itself says loopback.
    pub(super) loopback: bool,
    pub(super) allow_private: bool,
}

impl Guard {
    pub(super) fn allows(&self, address: IpAddr) -> bool {
        match place(address) {
            Place::Public => !self.loopback,
            Place::Loopback => self.loopback,
            Place::Private => self.allow_private && !self.loopback,
            Place::Closed => false,
        }
    }
}

impl Resolver for Guard {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let found = match literal(uri) {
            Some(addresses) => addresses,
            None => {
                let found = DefaultResolver::default().resolve(uri, config, timeout)?;
                found.iter().copied().collect()
            }
        };
        let mut allowed = self.empty();
        let mut refused = None;
        for address in found.into_iter().take(16) {
            if self.allows(address.ip()) {
                allowed.push(address);
            } else {
                refused = Some(address.ip());
            }
        }
        match refused {
            Some(address) if allowed.is_empty() => Err(Error::Other(Box::new(Forbidden(address)))),
            _ if allowed.is_empty() => Err(Error::HostNotFound),
            _ => Ok(allowed),
        }
    }
}

/// Addresses that are written in the URL, and `localhost`: nobody need be asked.
fn literal(uri: &Uri) -> Option<Vec<SocketAddr>> {
    let default = if uri.scheme_str() == Some("https") {
        443
    } else {
        80
    };
    let port = uri.port_u16().unwrap_or(default);
    let host = uri.host()?;
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if bare.eq_ignore_ascii_case("localhost") {
        let both: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        return Some(both.map(|ip| SocketAddr::new(ip, port)).to_vec());
    }
    bare.parse().ok().map(|ip| vec![SocketAddr::new(ip, port)])
}

#[derive(Debug)]
pub(super) struct Forbidden(pub(super) IpAddr);

impl std::fmt::Display for Forbidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(address) = self;
        match place(*address) {
            Place::Private => write!(
                f,
                "it is at a private address ({address}), which --allow-private allows"
            ),
            Place::Loopback => write!(
                f,
                "it is at this machine ({address}), which the URL itself would have to say"
            ),
            _ => write!(f, "it is at an address that is never allowed ({address})"),
        }
    }
}

impl std::error::Error for Forbidden {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        for (text, wanted) in [
            ("8.8.8.8", Place::Public),
            ("172.32.0.1", Place::Public),
            ("2606:4700::1111", Place::Public),
            ("127.0.0.1", Place::Loopback),
            ("127.9.9.9", Place::Loopback),
            ("::1", Place::Loopback),
            ("::ffff:127.0.0.1", Place::Loopback),
            ("10.1.2.3", Place::Private),
            ("172.16.0.1", Place::Private),
            ("192.168.1.1", Place::Private),
            ("100.64.0.1", Place::Private),
            ("fd12::1", Place::Private),
            ("::ffff:10.0.0.1", Place::Private),
            ("64:ff9b::a00:1", Place::Private),
            ("2002:a00:1::", Place::Private),
            ("0.0.0.0", Place::Closed),
            ("169.254.169.254", Place::Closed),
            ("255.255.255.255", Place::Closed),
            ("224.0.0.1", Place::Closed),
            ("::", Place::Closed),
            ("fe80::1", Place::Closed),
            ("ff02::1", Place::Closed),
            ("fd00:ec2::254", Place::Closed),
            ("::ffff:169.254.169.254", Place::Closed),
        ] {
            assert_eq!(place(text.parse().unwrap()), wanted, "{text}");
        }
    }

    #[test]
    fn what_is_allowed_depends_on_what_was_written() {
        let allowed = |loopback, allow_private, text: &str| {
            let guard = Guard {
                loopback,
                allow_private,
            };
            guard.allows(text.parse().unwrap())
        };
        assert!(allowed(false, false, "8.8.8.8"));
        assert!(!allowed(false, false, "10.0.0.1") && allowed(false, true, "10.0.0.1"));
        assert!(!allowed(false, true, "127.0.0.1") && allowed(true, false, "127.0.0.1"));
        assert!(
            !allowed(true, true, "8.8.8.8"),
            "localhost that is elsewhere"
        );
        assert!(!allowed(false, true, "169.254.169.254"));
    }
}
