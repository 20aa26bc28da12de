//! The one thing that these tests ask of the system and that the standard library does not offer.

/// `signal(SIGPIPE, SIG_DFL)`: the signal kills, as in programs that are not written in Rust.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn default_sigpipe() {
    // SAFETY: the default action is no function of ours.
    let before = unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    assert_ne!(before, libc::SIG_ERR);
}
