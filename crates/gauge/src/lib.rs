//! The measuring engine of Tautline.
