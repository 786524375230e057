//! Feeds inputs to the functions under test and checks the rules that hold for all inputs; both are in `src/jwt.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| songline_fuzz::jwt::jwt(input));
