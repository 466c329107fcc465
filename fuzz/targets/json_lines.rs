#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| resemblance_fuzz::json_lines::check(bytes));
