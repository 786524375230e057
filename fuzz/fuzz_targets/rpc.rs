//! What it does with an input, and which rules hold for all of them, is in `src/rpc.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| songline_fuzz::rpc::rpc(input));
