//! Addresses of Kafka's brokers: `kafka://HOST:PORT,HOST:PORT`, or `kafka+tls://` for connections with TLS.

use std::fmt;

/// Port of brokers whose address has none.
const PORT: u16 = 9092;

/// Brokers that are asked for the others of their cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Brokers {
    /// Whether connections use TLS.
    pub tls: bool,
    /// The brokers, in the order of the address: at least one.
    pub brokers: Vec<Broker>,
}

/// Address of one broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broker {
    /// Name or IP address. IPv6 addresses have no brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl fmt::Display for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Reason why a text is not an address of brokers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidBrokers {
    /// Another scheme or none.
    #[error("must begin with kafka:// or kafka+tls://")]
    Scheme,
    /// A user or password, which everyone would see who may read sinks.
    #[error("it has a user or password, which belong into Secret")]
    Credentials,
    /// A part between commas is no host with a port.
    #[error("{0:?} is not HOST or HOST:PORT")]
    Broker(String),
}

impl Brokers {
    /// Reads an address.
    pub fn parse(address: &str) -> Result<Self, InvalidBrokers> {
        let (tls, list) = match (address.strip_prefix("kafka://"), address.strip_prefix("kafka+tls://")) {
            (Some(list), _) => (false, list),
            (None, Some(list)) => (true, list),
            (None, None) => return Err(InvalidBrokers::Scheme),
        };
        if list.contains('@') {
            return Err(InvalidBrokers::Credentials);
        }
        let brokers = list.split(',').map(broker).collect::<Result<_, _>>()?;
        Ok(Self { tls, brokers })
    }
}

fn broker(text: &str) -> Result<Broker, InvalidBrokers> {
    let wrong = || InvalidBrokers::Broker(text.to_owned());
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or_else(wrong)?;
            host.parse::<std::net::Ipv6Addr>().map_err(|_| wrong())?;
            (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':').ok_or_else(wrong)?) })
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if host.is_empty() || !host.contains(':') && !host.bytes().all(is_name) {
        return Err(wrong());
    }
    let port = match port {
        None => PORT,
        // `parse` would take a sign.
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().map_err(|_| wrong())?,
        Some(_) => return Err(wrong()),
    };
    if port == 0 { Err(wrong()) } else { Ok(Broker { host: host.to_owned(), port }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(address: &str) -> String {
        match Brokers::parse(address) {
            Ok(Brokers { tls, brokers }) => {
                let brokers: Vec<String> = brokers.iter().map(ToString::to_string).collect();
                format!("{}{}", if tls { "tls " } else { "" }, brokers.join(" "))
            }
            Err(why) => why.to_string(),
        }
    }

    #[test]
    fn an_address_has_one_or_several_brokers() {
        for (address, expected) in [
            ("kafka://bus.test", "bus.test:9092"),
            ("kafka+tls://a:1,b,10.0.0.1:65535", "tls a:1 b:9092 10.0.0.1:65535"),
            ("kafka://[::1],[::1]:7", "[::1]:9092 [::1]:7"),
        ] {
            assert_eq!(read(address), expected, "{address}");
        }
    }

    #[test]
    fn other_addresses_are_refused() {
        for address in ["bus.test:9092", "http://bus.test", "kafka:bus.test", ""] {
            assert_eq!(read(address), "must begin with kafka:// or kafka+tls://", "{address}");
        }
        assert_eq!(read("kafka://user:pass@a"), "it has a user or password, which belong into Secret");
        for broker in
            ["", "a:", "a:b", "a:+1", "a:0", "a:65536", "a b", "a/topic", "a?x", "::1", "[::1", "[a]", "[::1]7", "[]"]
        {
            let address = format!("kafka://good:1,{broker}");
            assert_eq!(read(&address), format!("{broker:?} is not HOST or HOST:PORT"), "{address}");
        }
    }
}
