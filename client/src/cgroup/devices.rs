//! The device cgroup of the unified layout. The layout has no files for it: the kernel runs a BPF program whenever a
//! process of the cgroup opens or makes a device. In the layout of version 1 a list of settings does the same.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

/// A device that may be used, in the notation of version 1: `c 1:3 rw`, `c 136:* rw`.
struct Rule {
    kind: i32,
    major: i32,
    /// `None` means any minor number.
    minor: Option<i32>,
    access: i32,
}

/// Limits the processes of a cgroup to these devices. The limit lasts as long as the cgroup.
pub(super) fn allow_only(dir: &Path, devices: &[String]) -> io::Result<()> {
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("limiting devices in {}: {error}", dir.display()));
    let rules: Option<Vec<Rule>> = devices.iter().map(|device| Rule::parse(device)).collect();
    let rules = rules.ok_or_else(|| named(io::Error::other("a device is not understood")))?;
    let cgroup = File::open(dir).map_err(named)?;
    load(&program(&rules)).and_then(|program| attach(&program, &cgroup)).map_err(named)
}

/// Kinds of devices and of access, as the kernel numbers them.
const BLOCK: i32 = 1;
const CHARACTER: i32 = 2;
const MAKE: i32 = 1;
const READ: i32 = 2;
const WRITE: i32 = 4;

impl Rule {
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let kind = match words.next()? {
            "b" => BLOCK,
            "c" => CHARACTER,
            _ => return None,
        };
        let (major, minor) = words.next()?.split_once(':')?;
        let access = words.next()?.chars().try_fold(0, |access, letter| match letter {
            'm' => Some(access | MAKE),
            'r' => Some(access | READ),
            'w' => Some(access | WRITE),
            _ => None,
        })?;
        let minor = if minor == "*" { None } else { Some(minor.parse().ok()?) };
        Some(Self { kind, major: major.parse().ok()?, minor, access })
    }
}

/// One instruction (`struct bpf_insn`): operation code, registers (target in the low half, source in the high half),
/// length of the jump, immediate number.
#[repr(C)]
#[derive(Clone, Copy)]
struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    number: i32,
}

const LOAD: u8 = 0x61;
const COPY: u8 = 0xbf;
const SET: u8 = 0xb7;
const AND: u8 = 0x57;
const SHIFT_RIGHT: u8 = 0x77;
const JUMP_UNLESS_EQUAL: u8 = 0x55;
const EXIT: u8 = 0x95;

fn instruction(code: u8, to: u8, from: u8, offset: i16, number: i32) -> Instruction {
    Instruction { code, registers: from << 4 | to, offset, number }
}

/// Builds the program. Register 1 points to the kernel's request: access and kind in one word, major number, minor
/// number.
fn program(rules: &[Rule]) -> Vec<Instruction> {
    let (access, major, minor, kind, beyond) = (2, 3, 4, 5, 6);
    let mut program = vec![
        instruction(LOAD, access, 1, 0, 0),
        instruction(LOAD, major, 1, 4, 0),
        instruction(LOAD, minor, 1, 8, 0),
        instruction(COPY, kind, access, 0, 0),
        instruction(AND, kind, 0, 0, 0xffff),
        instruction(SHIFT_RIGHT, access, 0, 0, 16),
    ];
    for rule in rules {
        let mut checks = vec![(kind, rule.kind), (major, rule.major)];
        checks.extend(rule.minor.map(|number| (minor, number)));
        checks.push((beyond, 0));
        program.push(instruction(COPY, beyond, access, 0, 0));
        program.push(instruction(AND, beyond, 0, 0, !rule.access));
        let count = checks.len();
        for (at, (register, number)) in checks.into_iter().enumerate() {
            // The jump leads over the checks that follow and the two instructions that allow the access.
            let over = i16::try_from(count - at - 1 + 2).unwrap_or(i16::MAX);
            program.push(instruction(JUMP_UNLESS_EQUAL, register, 0, over, number));
        }
        program.extend([instruction(SET, 0, 0, 0, 1), instruction(EXIT, 0, 0, 0, 0)]);
    }
    program.extend([instruction(SET, 0, 0, 0, 0), instruction(EXIT, 0, 0, 0, 0)]);
    program
}

/// Arguments of loading a program, as far as this program needs them (`union bpf_attr`).
#[repr(C)]
struct Load {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
}

/// Arguments of attaching a program (`union bpf_attr`).
#[repr(C)]
struct Attach {
    cgroup: u32,
    program: u32,
    kind: u32,
    flags: u32,
}

const PROGRAM_LOAD: libc::c_long = 5;
const PROGRAM_ATTACH: libc::c_long = 8;
/// `BPF_PROG_TYPE_CGROUP_DEVICE`.
const DEVICE_PROGRAM: u32 = 15;
/// `BPF_CGROUP_DEVICE`.
const TO_DEVICES: u32 = 6;
/// `BPF_F_ALLOW_MULTI`: the program is attached beside programs of the cgroups above. All of them have to allow an
/// access.
const BESIDE_OTHERS: u32 = 2;

fn load(program: &[Instruction]) -> io::Result<OwnedFd> {
    let license = c"Apache-2.0";
    let told = Load {
        kind: DEVICE_PROGRAM,
        count: u32::try_from(program.len()).map_err(io::Error::other)?,
        instructions: program.as_ptr() as u64,
        license: license.as_ptr() as u64,
        log_level: 0,
        log_bytes: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
    };
    #[allow(unsafe_code)]
    // SAFETY: the kernel reads the structure, the instructions and the license, all alive during the call, each within
    // the bounds it is told.
    let loaded = unsafe { libc::syscall(libc::SYS_bpf, PROGRAM_LOAD, &raw const told, size_of_val(&told)) };
    let Some(descriptor) = i32::try_from(loaded).ok().filter(|number| *number >= 0) else {
        return Err(io::Error::last_os_error());
    };
    #[allow(unsafe_code)]
    // SAFETY: the kernel has just opened it for this call, and nothing else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn attach(program: &OwnedFd, cgroup: &File) -> io::Result<()> {
    let told = Attach {
        cgroup: cgroup.as_raw_fd().unsigned_abs(),
        program: program.as_raw_fd().unsigned_abs(),
        kind: TO_DEVICES,
        flags: BESIDE_OTHERS,
    };
    #[allow(unsafe_code)]
    // SAFETY: the kernel reads the structure, alive during the call, within the bounds it is told; both descriptors are
    // open.
    let attached = unsafe { libc::syscall(libc::SYS_bpf, PROGRAM_ATTACH, &raw const told, size_of_val(&told)) };
    if attached == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn device_rules_parse_in_cgroup_version_1_syntax() {
        let read = |text: &str| Rule::parse(text).map(|rule| (rule.kind, rule.major, rule.minor, rule.access));
        assert_eq!(read("c 1:3 rw"), Some((CHARACTER, 1, Some(3), READ | WRITE)));
        assert_eq!(read("b 7:* rwm"), Some((BLOCK, 7, None, READ | WRITE | MAKE)));
        for odd in ["", "c", "a 1:3 rw", "c 1 rw", "c 1:3 x", "c 1:x rw"] {
            assert_eq!(read(odd), None, "{odd}");
        }
    }

    #[test]
    fn processes_of_a_cgroup_open_and_make_only_the_devices_it_allows() {
        if !crate::executor::tests::is_root("only root may make cgroups") {
            return;
        }
        let mounts = std::fs::read_to_string("/proc/self/mounts").expect("readable");
        let Some(mount) = mounts.lines().find(|line| line.split(' ').nth(2) == Some("cgroup2")) else {
            crate::executor::tests::skip("the unified layout is not mounted");
            return;
        };
        let parent = Path::new(mount.split(' ').nth(1).expect("a path"));
        let dir = parent.join(format!("songline-devices-{}", std::process::id()));
        std::fs::create_dir(&dir).expect("made");
        let devices = ["c 1:3 rw", "c 1:5 r", "c 5:0 rw", "c 136:* rw"].map(str::to_owned);
        let limited = allow_only(&dir, &devices);
        let node = std::env::temp_dir().join(format!("songline-devices-{}", std::process::id()));
        let script = format!(
            "echo 0 > {}/cgroup.procs; for to in null zero; do (echo > /dev/$to) 2>&- && echo wrote $to; done; \
             for from in null zero full; do head -c 1 /dev/$from > /dev/null 2>&1 && echo read $from; done; \
             mknod {} b 7 0 2>&- && echo made",
            dir.display(),
            node.display()
        );
        let said = Command::new("/bin/sh").args(["-c", &script]).stdin(Stdio::null()).output().expect("runs");
        let _ = std::fs::remove_file(&node);
        let removed = std::fs::remove_dir(&dir);
        limited.expect("limits");
        removed.expect("is empty");
        assert_eq!(
            String::from_utf8_lossy(&said.stdout),
            "wrote null\nread null\nread zero\n",
            "{}",
            String::from_utf8_lossy(&said.stderr)
        );
    }
}
