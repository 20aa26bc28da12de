//! Addresses as anybody may write them: a text is refused with a reason, or it is an address that prints
//! as a text which parses back to the same address, and prints the same again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tautline::Address;

fuzz_target!(|text: &str| {
    match text.parse::<Address>() {
        Ok(address) => {
            let printed = address.to_string();
            let again: Address = printed.parse().expect("what was printed parses");
            assert_eq!(again, address);
            assert_eq!(again.to_string(), printed);
        }
        Err(why) => assert!(!why.to_string().is_empty()),
    }
});
