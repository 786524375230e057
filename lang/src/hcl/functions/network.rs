//! Functions on address prefixes such as `10.0.0.0/8`: hosts, masks and subnets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Called, Failure, Function, Takes, fail, integer_of, plain, text_of, variadic};
use crate::hcl::value::Value;

/// Largest number of bits added at once: the reference stores a subnet number in this many bits.
const NEW_BITS_MAX: i64 = 32;

pub(super) const FUNCTIONS: &[Function] = &[
    plain("cidrhost", &[("prefix", Takes::Text), ("hostnum", Takes::Number)], host),
    plain("cidrnetmask", &[("prefix", Takes::Text)], netmask),
    plain("cidrsubnet", &[("prefix", Takes::Text), ("newbits", Takes::Number), ("netnum", Takes::Number)], subnet),
    variadic("cidrsubnets", &[("prefix", Takes::Text)], ("newbits", Takes::Number), subnets),
];

/// A network: its first address as a number, and the length of its prefix.
#[derive(Debug, Clone, Copy)]
struct Network {
    first: u128,
    prefix: u32,
    /// Length of an address in bits: 32 or 128.
    bits: u32,
}

impl Network {
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("invalid CIDR expression: invalid CIDR address: {text}");
        let (address, prefix) = text.split_once('/').ok_or_else(wrong)?;
        let (address, bits) = match address.parse().map_err(|_| wrong())? {
            IpAddr::V4(address) => (u128::from(u32::from(address)), 32),
            IpAddr::V6(address) => (u128::from(address), 128),
        };
        let is_number = (1..=3).contains(&prefix.len()) && prefix.bytes().all(|digit| digit.is_ascii_digit());
        let prefix: u32 = prefix.parse().ok().filter(|prefix| is_number && *prefix <= bits).ok_or_else(wrong)?;
        let network = Network { first: address, prefix, bits };
        Ok(Network { first: address & !network.last_host(), ..network })
    }

    /// Number of host bits.
    fn host_bits(self) -> u32 {
        self.bits - self.prefix
    }

    /// The highest host number.
    fn last_host(self) -> u128 {
        1_u128.checked_shl(self.host_bits()).map_or(u128::MAX, |count| count - 1)
    }

    fn shown(self, address: u128) -> String {
        match u32::try_from(address) {
            Ok(address) if self.bits == 32 => Ipv4Addr::from(address).to_string(),
            _ => Ipv6Addr::from(address).to_string(),
        }
    }

    fn text(self) -> String {
        format!("{}/{}", self.shown(self.first), self.prefix)
    }
}

fn whole(given: &[Value], at: usize) -> Result<i64, Failure> {
    integer_of(given, at).map_err(|failure| match failure {
        Failure::Argument(_, reason) | Failure::Call(reason) => Failure::Call(reason),
    })
}

/// Resolves a number, which counts from the end if it is negative; `None` if it is out of range.
fn counted(number: i64, last: u128) -> Option<u128> {
    let from_start = u128::from(number.unsigned_abs());
    if number >= 0 { Some(from_start).filter(|number| *number <= last) } else { last.checked_sub(from_start - 1) }
}

/// The number as the error text shows it: a negative one is converted to count from the start.
fn told(number: i64, last: u128) -> i128 {
    let behind = i128::from(number) + 1;
    if number >= 0 { i128::from(number) } else { i128::try_from(last).unwrap_or(i128::MAX).saturating_add(behind) }
}

fn host(given: &[Value]) -> Called {
    let number = whole(given, 1)?;
    let network = Network::parse(text_of(given, 0)).map_err(Failure::Call)?;
    match counted(number, network.last_host()) {
        Some(host) => Ok(Value::Text(network.shown(network.first | host))),
        None => fail(format!(
            "prefix of {} does not accommodate a host numbered {}",
            network.prefix,
            told(number, network.last_host())
        )),
    }
}

fn netmask(given: &[Value]) -> Called {
    let network = Network::parse(text_of(given, 0)).map_err(Failure::Call)?;
    let all = if network.bits == 32 { u128::from(u32::MAX) } else { u128::MAX };
    Ok(Value::Text(network.shown(all & !network.last_host())))
}

fn subnet(given: &[Value]) -> Called {
    let (bits, number) = (whole(given, 1)?, whole(given, 2)?);
    let network = Network::parse(text_of(given, 0)).map_err(Failure::Call)?;
    if bits > NEW_BITS_MAX {
        return fail("may not extend prefix by more than 32 bits");
    }
    let Some(new_bits) = u32::try_from(bits).ok().filter(|bits| *bits <= network.host_bits()) else {
        return fail(format!("insufficient address space to extend prefix of {} by {bits}", network.prefix));
    };
    let Some(number_in) = counted(number, (1_u128 << new_bits) - 1) else {
        return fail(format!("prefix extension of {bits} does not accommodate a subnet numbered {number}"));
    };
    let found = Network { prefix: network.prefix + new_bits, ..network };
    let moved = number_in.checked_shl(found.host_bits()).unwrap_or(0);
    Ok(Value::Text(Network { first: network.first | moved, ..found }.text()))
}

fn subnets(given: &[Value]) -> Called {
    let network = Network::parse(text_of(given, 0)).map_err(|reason| Failure::Argument(0, reason))?;
    let mut out = Vec::new();
    // The first free address; `None` if the address space is used up.
    let mut free = Some(network.first);
    let mut last = network;
    for at in 1..given.len() {
        let bits = integer_of(given, at)?;
        let no = |reason: String| Err(Failure::Argument(at, reason));
        if bits < 1 {
            return no("must extend prefix by at least one bit".to_owned());
        }
        if bits > NEW_BITS_MAX {
            return no("may not extend prefix by more than 32 bits".to_owned());
        }
        let prefix = i64::from(network.prefix) + bits;
        let Some(prefix) = u32::try_from(prefix).ok().filter(|prefix| *prefix <= network.bits) else {
            let protocol = if network.bits == 32 { "IPv4" } else { "IPv6" };
            return no(format!("would extend prefix to {prefix} bits, which is too long for an {protocol} address"));
        };
        let next = Network { prefix, ..network };
        let last_of_all = network.first | network.last_host();
        // Subnets start at multiples of their size.
        let first = free.and_then(|free| free.checked_add(next.last_host())).map(|raised| raised & !next.last_host());
        let Some(first) = first.filter(|first| *first <= last_of_all) else {
            return no(format!(
                "not enough remaining address space for a subnet with a prefix of {prefix} bits after {}",
                last.text()
            ));
        };
        last = Network { first, ..next };
        free = (first | next.last_host()).checked_add(1);
        out.push(Value::Text(last.text()));
    }
    Ok(Value::list(out))
}
