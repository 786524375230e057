//! Signals by name, as job files and requests write them.

use rustix::process::Signal;

/// Kill signal of a task that does not set one.
pub const DEFAULT_KILL_SIGNAL: &str = "SIGINT";

const SIGNALS: &[(&str, Signal)] = &[
    ("SIGABRT", Signal::ABORT),
    ("SIGALRM", Signal::ALARM),
    ("SIGBUS", Signal::BUS),
    ("SIGCHLD", Signal::CHILD),
    ("SIGCONT", Signal::CONT),
    ("SIGFPE", Signal::FPE),
    ("SIGHUP", Signal::HUP),
    ("SIGILL", Signal::ILL),
    ("SIGINT", Signal::INT),
    ("SIGIO", Signal::IO),
    ("SIGKILL", Signal::KILL),
    ("SIGPIPE", Signal::PIPE),
    ("SIGPROF", Signal::PROF),
    ("SIGQUIT", Signal::QUIT),
    ("SIGSEGV", Signal::SEGV),
    ("SIGSTOP", Signal::STOP),
    ("SIGSYS", Signal::SYS),
    ("SIGTERM", Signal::TERM),
    ("SIGTRAP", Signal::TRAP),
    ("SIGTSTP", Signal::TSTP),
    ("SIGTTIN", Signal::TTIN),
    ("SIGTTOU", Signal::TTOU),
    ("SIGURG", Signal::URG),
    ("SIGUSR1", Signal::USR1),
    ("SIGUSR2", Signal::USR2),
    ("SIGWINCH", Signal::WINCH),
    ("SIGXCPU", Signal::XCPU),
    ("SIGXFSZ", Signal::XFSZ),
];

/// Signal by name, such as `SIGHUP`.
pub fn by_name(name: &str) -> Option<Signal> {
    SIGNALS.iter().find(|(known, _)| *known == name).map(|(_, signal)| *signal)
}

/// Signal by number.
pub fn by_number(number: i32) -> Option<Signal> {
    SIGNALS.iter().find(|(_, signal)| signal.as_raw() == number).map(|(_, signal)| *signal)
}

/// All names, sorted: the node publishes them as an attribute, whose value enters the node's computed class.
pub fn names() -> String {
    SIGNALS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(",")
}

/// A signal's description in the C library's words, which task events use; of an unknown one its name.
pub fn description(name: &str) -> &str {
    match name {
        "SIGABRT" => "aborted",
        "SIGALRM" => "alarm clock",
        "SIGBUS" => "bus error",
        "SIGCHLD" => "child exited",
        "SIGCONT" => "continued",
        "SIGFPE" => "floating point exception",
        "SIGHUP" => "hangup",
        "SIGILL" => "illegal instruction",
        "SIGINT" => "interrupt",
        "SIGIO" => "I/O possible",
        "SIGKILL" => "killed",
        "SIGPIPE" => "broken pipe",
        "SIGPROF" => "profiling timer expired",
        "SIGQUIT" => "quit",
        "SIGSEGV" => "segmentation fault",
        "SIGSTOP" => "stopped (signal)",
        "SIGSYS" => "bad system call",
        "SIGTERM" => "terminated",
        "SIGTRAP" => "trace/breakpoint trap",
        "SIGTSTP" => "stopped",
        "SIGTTIN" => "stopped (tty input)",
        "SIGTTOU" => "stopped (tty output)",
        "SIGURG" => "urgent I/O condition",
        "SIGUSR1" => "user defined signal 1",
        "SIGUSR2" => "user defined signal 2",
        "SIGWINCH" => "window changed",
        "SIGXCPU" => "CPU time limit exceeded",
        "SIGXFSZ" => "file size limit exceeded",
        other => other,
    }
}
