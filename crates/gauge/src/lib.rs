//! The measuring engine of Tautline.

pub mod environment;
pub mod report;
