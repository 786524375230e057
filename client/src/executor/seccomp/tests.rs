//! System calls that the filter allows and refuses by capability, and the kernel's size limit of the filter.

use super::*;

fn numbers(bounding: Set) -> Vec<c_long> {
    allowed(bounding).expect("compiles").into_keys().collect()
}

#[test]
fn filter_compiles_for_every_capability() {
    for bounding in [Set::EMPTY, Set::DEFAULT, Set::ALL] {
        for program in programs(bounding).expect("compiles") {
            // The kernel's limit of instructions.
            assert!(program.len() <= 4096, "{} instructions", program.len());
        }
    }
}

#[test]
fn documented_blocked_syscalls_need_a_capability_or_are_never_allowed() {
    let (tight, all) = (numbers(Set::DEFAULT), numbers(Set::ALL));
    let gated =
        [libc::SYS_bpf, libc::SYS_mount, libc::SYS_unshare, libc::SYS_setns, libc::SYS_reboot, libc::SYS_init_module];
    for call in gated {
        assert!(!tight.contains(&call) && all.contains(&call), "{call}");
    }
    let never =
        [libc::SYS_keyctl, libc::SYS_add_key, libc::SYS_userfaultfd, libc::SYS_io_uring_setup, libc::SYS_pivot_root];
    for call in never {
        assert!(!tight.contains(&call) && !all.contains(&call), "{call}");
    }
    assert!(tight.contains(&libc::SYS_chroot) && !numbers(Set::EMPTY).contains(&libc::SYS_chroot));
}

#[test]
fn clone3_is_absent_unless_namespaces_are_allowed() {
    assert!(absent(Set::DEFAULT).contains_key(&libc::SYS_clone3));
    assert!(!absent(Set::ALL).contains_key(&libc::SYS_clone3));
}
