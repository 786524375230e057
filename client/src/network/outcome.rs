//! The result of CNI plugins: the interface and the address of an allocation. Pure.

use serde_json::Value;
use songline_model::{AllocNetworkStatus, DnsConfig, Str};

/// Reads the result of the last plugin of a list. `interface` is the name that the plugins were told.
pub(super) fn status(result: &Value, interface: &str) -> Result<AllocNetworkStatus, String> {
    let (name, address) = inside(result, interface)
        .or_else(|| old_form(result, interface))
        .ok_or_else(|| "the plugins gave the allocation no interface with an address".to_owned())?;
    let dns = &result["dns"];
    Ok(AllocNetworkStatus {
        interface_name: name.into(),
        address: address.into(),
        dns: Some(DnsConfig {
            servers: texts(&dns["nameservers"]),
            searches: texts(&dns["search"]),
            options: texts(&dns["options"]),
        }),
    })
}

/// The interface in the namespace and its first address; if there are several, that of the wanted name.
fn inside(result: &Value, wanted: &str) -> Option<(String, String)> {
    let interfaces = result["interfaces"].as_array()?;
    let addressed = |at: usize| {
        let of_interface =
            |ip: &&Value| ip["interface"].as_u64().and_then(|index| usize::try_from(index).ok()) == Some(at);
        result["ips"].as_array()?.iter().find(of_interface).and_then(|ip| without_mask(&ip["address"]))
    };
    let mut found: Option<(String, String)> = None;
    for (at, interface) in interfaces.iter().enumerate() {
        let name = interface["name"].as_str().unwrap_or_default();
        let is_inside = interface["sandbox"].as_str().is_some_and(|sandbox| !sandbox.is_empty());
        let Some(address) = addressed(at).filter(|_| is_inside && name != "lo") else { continue };
        if name == wanted {
            return Some((name.to_owned(), address));
        }
        found.get_or_insert((name.to_owned(), address));
    }
    found
}

/// Results of old protocols do not name interfaces.
fn old_form(result: &Value, interface: &str) -> Option<(String, String)> {
    let first = result["ips"].as_array().and_then(|ips| without_mask(&ips.first()?["address"]));
    let oldest = || ["ip4", "ip6"].iter().find_map(|family| without_mask(&result[*family]["ip"]));
    Some((interface.to_owned(), first.or_else(oldest)?))
}

fn without_mask(address: &Value) -> Option<String> {
    address.as_str()?.split('/').next().filter(|ip| !ip.is_empty()).map(str::to_owned)
}

fn texts(list: &Value) -> Option<Vec<Str>> {
    let list = list.as_array().filter(|list| !list.is_empty())?;
    Some(list.iter().filter_map(Value::as_str).map(Str::new).collect())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    fn check(result: &Value, expected: Expect) {
        expected.assert_eq(&match status(result, "eth0") {
            Ok(status) => {
                let dns = status.dns.unwrap_or_default();
                format!("{} {} {:?} {:?}", status.interface_name, status.address, dns.servers, dns.searches)
            }
            Err(error) => error,
        });
    }

    #[test]
    fn address_is_that_of_the_interface_in_the_namespace() {
        let result = json!({
            "interfaces": [
                { "name": "nomad", "mac": "aa" },
                { "name": "veth1" },
                { "name": "net1", "sandbox": "/var/run/netns/x" },
                { "name": "eth0", "sandbox": "/var/run/netns/x" },
            ],
            "ips": [
                { "interface": 0, "address": "172.26.64.1/20" },
                { "interface": 2, "address": "10.0.0.9/24" },
                { "interface": 3, "address": "172.26.64.5/20" },
            ],
            "dns": {},
        });
        check(&result, expect!["eth0 172.26.64.5 None None"]);
    }

    #[test]
    fn another_interface_counts_where_the_wanted_one_has_no_address() {
        let result = json!({
            "interfaces": [{ "name": "lo", "sandbox": "/x" }, { "name": "net1", "sandbox": "/x" }],
            "ips": [{ "interface": 0, "address": "127.0.0.1/8" }, { "interface": 1, "address": "fd00::5/64" }],
            "dns": { "nameservers": ["10.0.0.1"], "search": ["lan"] },
        });
        check(&result, expect![[r#"net1 fd00::5 Some(["10.0.0.1"]) Some(["lan"])"#]]);
    }

    #[test]
    fn results_of_old_protocols_name_no_interfaces() {
        check(&json!({ "ips": [{ "address": "10.1.0.3/16" }] }), expect!["eth0 10.1.0.3 None None"]);
        check(&json!({ "ip4": { "ip": "10.2.0.3/16" } }), expect!["eth0 10.2.0.3 None None"]);
        check(&json!({}), expect!["the plugins gave the allocation no interface with an address"]);
    }
}
