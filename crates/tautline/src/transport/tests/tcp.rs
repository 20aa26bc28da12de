//! TCP.

use super::*;

#[test]
fn header_and_payload_arrive_as_one_and_come_back() {
    let listener = listen_on("tcp://127.0.0.1:0");
    let (client, peer) = pair(&listener);
    assert_eq!(client.send(&[0, 0, 0, 5], b"hello", Wait::No).unwrap(), 9);
    expect_bytes(&peer, b"\0\0\0\x05hello");
    assert_eq!(peer.send(b"", b"back", Wait::No).unwrap(), 4);
    expect_bytes(&client, b"back");
}
