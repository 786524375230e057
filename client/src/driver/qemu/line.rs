//! The command line of a virtual machine, and the checks of the options that it is made of.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use serde_json::Value;
use songline_model::AllocatedPortMapping;

use crate::driver::block::{Block, blocks, flag, number, text, texts};
use crate::driver::raw_exec::known_options;

/// Socket of the machine's monitor, in the task's directory. The name is relative, because the path of a socket has at
/// most 107 bytes.
pub(super) const MONITOR: &str = "monitor.sock";
/// Socket of the guest's agent, in the task's directory.
const GUEST_AGENT: &str = "qa.sock";
/// Options of a task.
const OPTIONS: &[&str] =
    &["image_path", "drive_interface", "accelerator", "graceful_shutdown", "guest_agent", "port_map", "args"];
/// Interfaces by which an image can be connected.
const DRIVE_INTERFACES: &[&str] = &["ide", "scsi", "sd", "mtd", "floppy", "pflash", "virtio", "none"];
/// Flags of the program that are not followed by a value.
const WITHOUT_VALUE: &[&str] = &[
    "S",
    "alt-grab",
    "ctrl-grab",
    "curses",
    "daemonize",
    "enable-kvm",
    "full-screen",
    "mem-prealloc",
    "no-acpi",
    "no-fd-bootchk",
    "no-hpet",
    "no-quit",
    "no-reboot",
    "no-shutdown",
    "no-user-config",
    "nodefaults",
    "nodefconfig",
    "nographic",
    "only-migratable",
    "preconfig",
    "s",
    "singlestep",
    "snapshot",
    "usb",
    "version",
];

/// A virtual machine, beside its options.
pub(super) struct Machine<'a> {
    /// Name, which the host's list of processes shows.
    pub name: String,
    /// File of the image.
    pub image: PathBuf,
    /// Memory, in MB.
    pub memory_mb: i64,
    /// Number of reserved cores; 0 leaves the number to the program.
    pub cores: usize,
    /// Ports of the task.
    pub ports: &'a [AllocatedPortMapping],
    /// Whether the process is in the network of its allocation rather than in that of the host.
    pub own_network: bool,
}

/// The argument that makes a monitor.
pub(super) fn monitor() -> String {
    format!("unix:{MONITOR},server=on,wait=off")
}

/// Refuses options that are unknown or wrong, and arguments that the node does not allow.
pub(super) fn check(config: &Block, args_allowlist: &[String]) -> Result<(), String> {
    known_options(config, OPTIONS, &["image_path"])?;
    let accelerator = text(config, "accelerator");
    if !accelerator.chars().all(|c| c.is_ascii_alphanumeric()) {
        return Err(format!("accelerator {accelerator:?} is not the name of an accelerator"));
    }
    let interface = text(config, "drive_interface");
    if !interface.is_empty() && !DRIVE_INTERFACES.contains(&interface.as_str()) {
        return Err(format!("drive_interface {interface:?} is not one of {}", DRIVE_INTERFACES.join(", ")));
    }
    for key in ["graceful_shutdown", "guest_agent"] {
        if config.get(key).is_some_and(|value| !value.is_null()) && flag(config, key).is_none() {
            return Err(format!("{key} must be true or false"));
        }
    }
    check_args(&texts(config, "args"), args_allowlist)
}

/// Refuses flags that are not in the list, and values without a flag, which the program would open as images. An empty
/// list allows everything.
fn check_args(args: &[String], allowed: &[String]) -> Result<(), String> {
    // The program takes both `-flag` and `--flag`.
    let name = |flag: &str| flag.strip_prefix("--").or_else(|| flag.strip_prefix('-')).map(str::to_owned);
    let mut args = args.iter().filter(|_| !allowed.is_empty()).peekable();
    while let Some(arg) = args.next() {
        let Some(flag) = name(arg) else { return Err(format!("args: {arg:?} is not the value of a flag")) };
        if !allowed.iter().any(|allowed| name(allowed).as_ref() == Some(&flag)) {
            return Err(format!("args: the flag {arg:?} is not in args_allowlist of the node"));
        }
        if !WITHOUT_VALUE.contains(&flag.as_str()) && args.next().is_none_or(|value| value.starts_with('-')) {
            return Err(format!("args: the flag {arg:?} needs a value"));
        }
    }
    Ok(())
}

/// The program's arguments. Those of the job come last, so that they can add to all others.
pub(super) fn arguments(config: &Block, machine: &Machine<'_>) -> Result<Vec<String>, String> {
    let or = |key: &str, otherwise: &str| {
        Some(text(config, key)).filter(|told| !told.is_empty()).unwrap_or(otherwise.into())
    };
    let accelerator = or("accelerator", "tcg");
    let mut args = Vec::new();
    let mut put = |flag: &str, value: String| args.extend([flag.to_owned(), value]);
    put("-machine", format!("type=pc,accel={accelerator}"));
    put("-name", literal(&machine.name));
    put("-m", format!("{}M", machine.memory_mb));
    put("-drive", format!("file={},if={}", literal(&shown(&machine.image)?), or("drive_interface", "ide")));
    if accelerator == "kvm" {
        put("-cpu", "host".to_owned());
    }
    if machine.cores > 0 {
        put("-smp", machine.cores.to_string());
    }
    if flag(config, "graceful_shutdown") == Some(true) {
        put("-monitor", monitor());
    }
    if flag(config, "guest_agent") == Some(true) {
        put("-chardev", format!("socket,path={GUEST_AGENT},server=on,wait=off,id=qga0"));
        put("-device", "virtio-serial".to_owned());
        put("-device", "virtserialport,chardev=qga0,name=org.qemu.guest_agent.0".to_owned());
    }
    let forwards = forwards(config, machine)?;
    if !forwards.is_empty() {
        put("-netdev", format!("user,id=user.0{forwards}"));
        put("-device", "virtio-net,netdev=user.0".to_owned());
    }
    args.push("-nographic".to_owned());
    args.extend(texts(config, "args"));
    Ok(args)
}

/// Rules by which ports of the task lead into the machine.
fn forwards(config: &Block, machine: &Machine<'_>) -> Result<String, String> {
    let mut rules = String::new();
    for map in blocks(config, "port_map") {
        for label in map.keys() {
            let port = machine.ports.iter().find(|port| port.label == label.as_str());
            let port = port.ok_or_else(|| format!("port_map: port {label:?} is not in the group's network block"))?;
            let inner = number(&map, label);
            if !(1..=65535).contains(&inner) {
                return Err(format!(
                    "port_map: port {label:?}: {} is not a port",
                    map.get(label).unwrap_or(&Value::Null)
                ));
            }
            let (address, outer) = if machine.own_network {
                (String::new(), if port.to > 0 { port.to } else { port.value })
            } else {
                (port.host_ip.to_string(), port.value)
            };
            if !address.is_empty() && address.parse::<Ipv4Addr>().is_err() {
                return Err(format!("port_map: port {label:?}: {address} is not an IPv4 address"));
            }
            for protocol in ["tcp", "udp"] {
                rules += &format!(",hostfwd={protocol}:{address}:{outer}-:{inner}");
            }
        }
    }
    Ok(rules)
}

fn shown(path: &Path) -> Result<String, String> {
    path.to_str().map(str::to_owned).ok_or_else(|| format!("image_path {}: not in UTF-8", path.display()))
}

/// A text as the value of an option, in which a comma would begin the next option.
fn literal(text: &str) -> String {
    text.replace(',', ",,")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    fn line(config: Value, change: impl Fn(&mut Machine<'_>)) -> String {
        let port = |label: &str, value, to| AllocatedPortMapping {
            label: label.into(),
            value,
            to,
            host_ip: if label == "six" { "::1".into() } else { "10.0.0.1".into() },
        };
        let ports = [port("ssh", 22001, 0), port("http", 22002, 8080), port("six", 22003, 0)];
        let mut machine = Machine {
            name: "vm-1".into(),
            image: "/alloc/vm/local/a.img".into(),
            memory_mb: 256,
            cores: 0,
            ports: &ports,
            own_network: false,
        };
        change(&mut machine);
        let config = config.as_object().expect("a block");
        match check(config, &[]).and_then(|()| arguments(config, &machine)) {
            Ok(args) => args.join(" "),
            Err(error) => error,
        }
    }

    #[test]
    fn task_config_becomes_a_command_line() {
        let story = [
            line(json!({"image_path": "local/a.img"}), |_| {}),
            line(json!({"image_path": "a.img", "accelerator": "kvm", "drive_interface": "virtio"}), |machine| {
                machine.cores = 2;
            }),
            line(
                json!({"image_path": "a.img", "graceful_shutdown": true, "guest_agent": true, "args": ["-snapshot"]}),
                |_| {},
            ),
            line(json!({"image_path": "a.img", "port_map": [{"http": 80, "ssh": 22}]}), |_| {}),
            line(json!({"image_path": "a.img", "port_map": {"http": "80", "ssh": 22}}), |machine| {
                machine.own_network = true;
            }),
            line(json!({"image_path": "a.img"}), |machine| machine.image = "/a,readonly=on".into()),
        ];
        expect![[r#"
            -machine type=pc,accel=tcg -name vm-1 -m 256M -drive file=/alloc/vm/local/a.img,if=ide -nographic
            -machine type=pc,accel=kvm -name vm-1 -m 256M -drive file=/alloc/vm/local/a.img,if=virtio -cpu host -smp 2 -nographic
            -machine type=pc,accel=tcg -name vm-1 -m 256M -drive file=/alloc/vm/local/a.img,if=ide -monitor unix:monitor.sock,server=on,wait=off -chardev socket,path=qa.sock,server=on,wait=off,id=qga0 -device virtio-serial -device virtserialport,chardev=qga0,name=org.qemu.guest_agent.0 -nographic -snapshot
            -machine type=pc,accel=tcg -name vm-1 -m 256M -drive file=/alloc/vm/local/a.img,if=ide -netdev user,id=user.0,hostfwd=tcp:10.0.0.1:22002-:80,hostfwd=udp:10.0.0.1:22002-:80,hostfwd=tcp:10.0.0.1:22001-:22,hostfwd=udp:10.0.0.1:22001-:22 -device virtio-net,netdev=user.0 -nographic
            -machine type=pc,accel=tcg -name vm-1 -m 256M -drive file=/alloc/vm/local/a.img,if=ide -netdev user,id=user.0,hostfwd=tcp::8080-:80,hostfwd=udp::8080-:80,hostfwd=tcp::22001-:22,hostfwd=udp::22001-:22 -device virtio-net,netdev=user.0 -nographic
            -machine type=pc,accel=tcg -name vm-1 -m 256M -drive file=/a,,readonly=on,if=ide -nographic"#]]
        .assert_eq(&story.join("\n"));
    }

    #[test]
    fn wrong_options_are_refused() {
        let wrong = [
            json!({"image_path": "a", "kernel": "x"}),
            json!({"accelerator": "kvm"}),
            json!({"image_path": "a", "accelerator": "tcg,thread=multi"}),
            json!({"image_path": "a", "drive_interface": "virtio,file=/etc/shadow"}),
            json!({"image_path": "a", "graceful_shutdown": "maybe"}),
            json!({"image_path": "a", "args": "-snapshot"}),
            json!({"image_path": "a", "port_map": {"db": 22}}),
            json!({"image_path": "a", "port_map": {"ssh": "twenty"}}),
            json!({"image_path": "a", "port_map": {"six": 22}}),
        ];
        expect![[r#"
            Invalid label: No argument or block type is named "kernel".
            Missing required attribute: The attribute "image_path" is required, but no definition was found.
            accelerator "tcg,thread=multi" is not the name of an accelerator
            drive_interface "virtio,file=/etc/shadow" is not one of ide, scsi, sd, mtd, floppy, pflash, virtio, none
            graceful_shutdown must be true or false
            Incorrect attribute value type: Inappropriate value for attribute "args": list of string required.
            port_map: port "db" is not in the group's network block
            port_map: port "ssh": "twenty" is not a port
            port_map: port "six": ::1 is not an IPv4 address"#]]
        .assert_eq(&wrong.map(|config| line(config, |_| {})).join("\n"));
    }

    #[test]
    fn node_allows_only_listed_flags() {
        let check = |args: &[&str], allowed: &[&str]| {
            let [args, allowed] =
                [args, allowed].map(|list| list.iter().map(|&text| text.to_owned()).collect::<Vec<_>>());
            check_args(&args, &allowed).err().unwrap_or_else(|| "fine".to_owned())
        };
        let listed = ["-snapshot", "-append", "-boot"];
        let story = [
            check(&["-usbdevice", "host:1", "/dev/sda"], &[]),
            check(&["-snapshot", "-append", "quiet", "--boot", "c"], &listed),
            check(&["-usbdevice", "host:1"], &listed),
            check(&["--drive", "file=/dev/sda"], &listed),
            check(&["/dev/sda"], &listed),
            check(&["-snapshot", "/dev/sda"], &listed),
            check(&["-append", "-append", "/dev/sda"], &listed),
            check(&["-append"], &listed),
        ];
        expect![[r#"
            fine
            fine
            args: the flag "-usbdevice" is not in args_allowlist of the node
            args: the flag "--drive" is not in args_allowlist of the node
            args: "/dev/sda" is not the value of a flag
            args: "/dev/sda" is not the value of a flag
            args: the flag "-append" needs a value
            args: the flag "-append" needs a value"#]]
        .assert_eq(&story.join("\n"));
    }
}
