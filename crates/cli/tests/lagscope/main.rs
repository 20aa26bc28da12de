//! `tautline lagscope`, and the program called `lagscope`, from the outside: consoles to the byte,
//! files, statuses, and the wire against plain peers that speak as the original does.

mod face;
mod receiver;
mod sender;
mod sender_faults;
mod usage;

#[path = "../program/mod.rs"]
mod program;
