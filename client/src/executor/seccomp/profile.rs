//! The table of system calls that an isolated task may make: the default profile of the container engines, as its
//! public documentation describes it (<https://docs.docker.com/engine/security/seccomp/>). The documentation lists the
//! refused calls and the reasons; this table lists the remaining calls. Rules about arguments are in the parent module.

use libc::*;

/// Numbers of system calls.
pub(super) type Calls = &'static [c_long];

macro_rules! calls {
    ($($name:ident)*) => { &[$($name),*] };
}

// Calls that `libc` does not name everywhere. From 424 on every architecture has the same numbers.
const SYS_CACHESTAT: c_long = 451;
const SYS_FCHMODAT2: c_long = 452;
const SYS_MAP_SHADOW_STACK: c_long = 453;
const SYS_FUTEX_WAKE: c_long = 454;
const SYS_FUTEX_WAIT: c_long = 455;
const SYS_FUTEX_REQUEUE: c_long = 456;
const SYS_MSEAL: c_long = 462;

/// The first call that is newer than this table. It and those behind it are answered with `ENOSYS`, so that programs
/// fall back.
pub(super) const FIRST_UNKNOWN: c_long = 463;

/// Allowed to every task.
pub(super) const ALWAYS: Calls = calls! {
    SYS_accept SYS_accept4 SYS_adjtimex SYS_bind SYS_brk SYS_capget SYS_capset SYS_chdir SYS_clock_getres SYS_clock_gettime
    SYS_clock_nanosleep SYS_close SYS_close_range SYS_connect SYS_copy_file_range SYS_dup SYS_dup3 SYS_epoll_create1 SYS_epoll_ctl
    SYS_epoll_pwait SYS_epoll_pwait2 SYS_eventfd2 SYS_execve SYS_execveat SYS_exit SYS_exit_group SYS_faccessat SYS_faccessat2
    SYS_fadvise64 SYS_fallocate SYS_fanotify_mark SYS_fchdir SYS_fchmod SYS_fchmodat SYS_fchown SYS_fchownat SYS_fcntl SYS_fdatasync
    SYS_fgetxattr SYS_flistxattr SYS_flock SYS_fremovexattr SYS_fsetxattr SYS_fstat SYS_fstatfs SYS_fsync SYS_ftruncate SYS_futex
    SYS_futex_waitv SYS_get_robust_list SYS_getcpu SYS_getcwd SYS_getdents64 SYS_getegid SYS_geteuid SYS_getgid SYS_getgroups
    SYS_getitimer SYS_getpeername SYS_getpgid SYS_getpid SYS_getppid SYS_getpriority SYS_getrandom SYS_getresgid SYS_getresuid
    SYS_getrlimit SYS_getrusage SYS_getsid SYS_getsockname SYS_getsockopt SYS_gettid SYS_gettimeofday SYS_getuid SYS_getxattr
    SYS_inotify_add_watch SYS_inotify_init1 SYS_inotify_rm_watch SYS_io_cancel SYS_io_destroy SYS_io_getevents SYS_io_setup
    SYS_io_submit SYS_ioctl SYS_ioprio_get SYS_ioprio_set SYS_kill SYS_landlock_add_rule SYS_landlock_create_ruleset
    SYS_landlock_restrict_self SYS_lgetxattr SYS_linkat SYS_listen SYS_listxattr SYS_llistxattr SYS_lremovexattr SYS_lseek
    SYS_lsetxattr SYS_madvise SYS_membarrier SYS_memfd_create SYS_memfd_secret SYS_mincore SYS_mkdirat SYS_mlock SYS_mlock2
    SYS_mlockall SYS_mmap SYS_mprotect SYS_mq_getsetattr SYS_mq_notify SYS_mq_open SYS_mq_timedreceive SYS_mq_timedsend
    SYS_mq_unlink SYS_mremap SYS_msgctl SYS_msgget SYS_msgrcv SYS_msgsnd SYS_msync SYS_munlock SYS_munlockall SYS_munmap
    SYS_name_to_handle_at SYS_nanosleep SYS_newfstatat SYS_openat SYS_openat2 SYS_pidfd_open SYS_pidfd_send_signal SYS_pipe2
    SYS_pkey_alloc SYS_pkey_free SYS_pkey_mprotect SYS_ppoll SYS_prctl SYS_pread64 SYS_preadv SYS_preadv2 SYS_prlimit64
    SYS_process_mrelease SYS_pselect6 SYS_ptrace SYS_pwrite64 SYS_pwritev SYS_pwritev2 SYS_read SYS_readahead SYS_readlinkat
    SYS_readv SYS_recvfrom SYS_recvmmsg SYS_recvmsg SYS_remap_file_pages SYS_removexattr SYS_renameat SYS_renameat2
    SYS_restart_syscall SYS_rseq SYS_rt_sigaction SYS_rt_sigpending SYS_rt_sigprocmask SYS_rt_sigqueueinfo SYS_rt_sigreturn
    SYS_rt_sigsuspend SYS_rt_sigtimedwait SYS_rt_tgsigqueueinfo SYS_sched_get_priority_max SYS_sched_get_priority_min
    SYS_sched_getaffinity SYS_sched_getattr SYS_sched_getparam SYS_sched_getscheduler SYS_sched_rr_get_interval
    SYS_sched_setaffinity SYS_sched_setattr SYS_sched_setparam SYS_sched_setscheduler SYS_sched_yield SYS_seccomp SYS_semctl
    SYS_semget SYS_semop SYS_semtimedop SYS_sendfile SYS_sendmmsg SYS_sendmsg SYS_sendto SYS_set_robust_list SYS_set_tid_address
    SYS_setfsgid SYS_setfsuid SYS_setgid SYS_setgroups SYS_setitimer SYS_setpgid SYS_setpriority SYS_setregid SYS_setresgid
    SYS_setresuid SYS_setreuid SYS_setrlimit SYS_setsid SYS_setsockopt SYS_setuid SYS_setxattr SYS_shmat SYS_shmctl SYS_shmdt
    SYS_shmget SYS_shutdown SYS_sigaltstack SYS_signalfd4 SYS_socketpair SYS_splice SYS_statfs SYS_statx SYS_symlinkat SYS_sync
    SYS_sync_file_range SYS_syncfs SYS_sysinfo SYS_tee SYS_tgkill SYS_timer_create SYS_timer_delete SYS_timer_getoverrun
    SYS_timer_gettime SYS_timer_settime SYS_timerfd_create SYS_timerfd_gettime SYS_timerfd_settime SYS_times SYS_tkill SYS_truncate
    SYS_umask SYS_uname SYS_unlinkat SYS_utimensat SYS_vmsplice SYS_wait4 SYS_waitid SYS_write SYS_writev
    SYS_CACHESTAT SYS_FCHMODAT2 SYS_MAP_SHADOW_STACK SYS_FUTEX_WAKE SYS_FUTEX_WAIT SYS_FUTEX_REQUEUE SYS_MSEAL
};

/// Allowed to every task, and only there on this architecture.
#[cfg(target_arch = "x86_64")]
pub(super) const ALWAYS_HERE: Calls = calls! {
    SYS_access SYS_alarm SYS_arch_prctl SYS_chmod SYS_chown SYS_creat SYS_dup2 SYS_epoll_create SYS_epoll_wait SYS_eventfd SYS_fork
    SYS_futimesat SYS_get_thread_area SYS_getdents SYS_getpgrp SYS_inotify_init SYS_lchown SYS_link SYS_lstat SYS_mkdir
    SYS_modify_ldt SYS_open SYS_pause SYS_pipe SYS_poll SYS_readlink SYS_rename SYS_rmdir SYS_select SYS_set_thread_area
    SYS_signalfd SYS_stat SYS_symlink SYS_time SYS_unlink SYS_utime SYS_utimes SYS_vfork
};
/// Allowed to every task, and only there on this architecture.
#[cfg(not(target_arch = "x86_64"))]
pub(super) const ALWAYS_HERE: Calls = &[];

/// Allowed to tasks whose bounding set has the capability, by the capability's name. Without it the kernel refuses them
/// as well, or they are large attack surfaces that only a privileged program needs.
pub(super) const WITH_CAPABILITY: &[(&str, Calls)] = &[
    ("bpf", calls!(SYS_bpf)),
    ("dac_read_search", calls!(SYS_open_by_handle_at)),
    ("perfmon", calls!(SYS_perf_event_open)),
    ("syslog", calls!(SYS_syslog)),
    (
        "sys_admin",
        calls! {
            SYS_bpf SYS_clone3 SYS_fanotify_init SYS_fsconfig SYS_fsmount SYS_fsopen SYS_fspick SYS_lookup_dcookie SYS_mount
            SYS_mount_setattr SYS_move_mount SYS_open_tree SYS_perf_event_open SYS_quotactl SYS_quotactl_fd SYS_setdomainname
            SYS_sethostname SYS_setns SYS_umount2 SYS_unshare
        },
    ),
    ("sys_boot", calls!(SYS_reboot)),
    ("sys_chroot", calls!(SYS_chroot)),
    ("sys_module", calls!(SYS_delete_module SYS_finit_module SYS_init_module)),
    (
        "sys_nice",
        calls! {
            SYS_get_mempolicy SYS_mbind SYS_migrate_pages SYS_move_pages SYS_set_mempolicy SYS_set_mempolicy_home_node
        },
    ),
    ("sys_pacct", calls!(SYS_acct)),
    ("sys_ptrace", calls!(SYS_kcmp SYS_pidfd_getfd SYS_process_madvise SYS_process_vm_readv SYS_process_vm_writev)),
    ("sys_time", calls!(SYS_clock_adjtime SYS_clock_settime SYS_settimeofday)),
    ("sys_tty_config", calls!(SYS_vhangup)),
    #[cfg(target_arch = "x86_64")]
    ("sys_rawio", calls!(SYS_ioperm SYS_iopl)),
];
