//! Flags as people write them.

use clap::{Args, Command};

use super::*;

#[derive(Args)]
#[allow(dead_code, reason = "only its flags are looked at")]
struct Example {
    #[arg(long)]
    json: bool,
    #[arg(long = "n")]
    n: Option<i64>,
    #[arg(long, action = clap::ArgAction::Set, default_value_t = true)]
    diff: bool,
    #[arg(long)]
    var: Vec<String>,
    job: Option<String>,
    count: Option<String>,
}

#[derive(Args)]
#[allow(dead_code, reason = "only its flags are looked at")]
struct Foreign {
    #[arg(long)]
    task: Option<String>,
    alloc: String,
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

fn read<A: Args>(line: &str) -> String {
    let mut command = A::augment_args(Command::new("x"));
    command.build();
    match separate(&command, &words(line)) {
        Ok(words) => format!("{} | {}", words.flags.join(" "), words.arguments.join(" ")),
        Err(failure) => failure.message().to_owned(),
    }
}

#[test]
fn flags_have_one_dash_or_two_and_values_joined_or_apart() {
    assert_eq!(read::<Example>("-json --n=5 web"), "--json --n=5 | web");
    assert_eq!(read::<Example>("--json -n 0x10"), "--json --n=16 | ");
    assert_eq!(read::<Example>("-n -3"), "--n=-3 | ");
}

#[test]
fn last_flag_counts_unless_it_repeats() {
    assert_eq!(read::<Example>("-json -json=false -n 1 -n 2"), "--n=2 | ");
    assert_eq!(read::<Example>("-var a=1 -var=b=2"), "--var=a=1 --var=b=2 | ");
    assert_eq!(read::<Example>("-diff=F"), "--diff=false | ");
}

#[test]
fn flags_may_follow_arguments_but_numbers_are_arguments() {
    assert_eq!(read::<Example>("web -json 3"), "--json | web 3");
    assert_eq!(read::<Example>("web -1"), " | web -1");
    assert_eq!(read::<Example>("-- -json"), " | -json");
}

#[test]
fn refusals_are_those_of_go() {
    assert_eq!(read::<Example>("-x"), "flag provided but not defined: -x");
    assert_eq!(read::<Example>("-n"), "flag needs an argument: -n");
    assert_eq!(read::<Example>("-n x"), "invalid value \"x\" for flag -n: parse error");
    assert_eq!(read::<Example>("-json=maybe"), "invalid boolean value \"maybe\" for -json: parse error");
}

#[test]
fn rest_of_another_program_is_left_alone() {
    assert_eq!(read::<Foreign>("-task web 1234 ls -la -task x"), "--task=web | 1234 ls -la -task x");
    let mut command = Foreign::augment_args(Command::new("x"));
    command.build();
    assert!(!asks_for_help(&command, &words("-task web 1234 ls -h")));
    assert!(asks_for_help(&command, &words("-task web -h 1234")));
}

#[test]
fn wrong_numbers_of_arguments_name_what_is_expected() {
    let mut command = Example::augment_args(Command::new("x"));
    command.build();
    assert_eq!(wrong_number(&command, 2), None);
    assert_eq!(wrong_number(&command, 3).as_deref(), Some("This command takes 0 to 2 arguments: <job> <count>"));
}
