//! Feeds inputs to the functions under test and checks the rules that hold for all inputs; both are in `src/lang.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| songline_fuzz::lang::config(input));
