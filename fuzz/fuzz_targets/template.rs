//! Feeds inputs to the functions under test and checks the rules that hold for all inputs; both are in
//! `src/template.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| songline_fuzz::template::template(input));
