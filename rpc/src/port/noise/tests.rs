//! Sealed connections: bytes arrive unchanged, and changed or cut streams are detected.

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::*;

fn key(byte: u8) -> ServerKey {
    ServerKey::new([byte; 32])
}

/// Both ends of a sealed connection over a pipe that buffers `bytes`.
fn sealed(bytes: usize) -> (Sealed<DuplexStream>, Sealed<DuplexStream>) {
    let (here, there) = tokio::io::duplex(bytes);
    let mut dialling = Handshake::dialling(&key(1), b"test").unwrap();
    let mut accepting = Handshake::accepting(&key(1), b"test").unwrap();
    assert!(accepting.hear(&dialling.say().unwrap()));
    assert!(dialling.hear(&accepting.say().unwrap()));
    (dialling.seal(here).unwrap(), accepting.seal(there).unwrap())
}

#[tokio::test]
async fn noise_channel_delivers_contents_of_every_size_unchanged() {
    let (mut here, mut there) = sealed(1000);
    for size in [1, 17, 4096, SPLIT_BYTES, SPLIT_BYTES + 1, 300_000] {
        let content: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
        let mut read = vec![0; size];
        let (written, read_all) = tokio::join!(
            async {
                here.write_all(&content).await?;
                here.flush().await
            },
            there.read_exact(&mut read)
        );
        written.unwrap();
        read_all.unwrap();
        assert!(read == content, "{size} bytes");
    }
}

#[tokio::test]
async fn noise_channel_distinguishes_a_clean_end_from_a_cut() {
    let (mut here, mut there) = sealed(1000);
    here.write_all(b"all").await.unwrap();
    here.shutdown().await.unwrap();
    let mut text = String::new();
    there.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "all");

    let (mut here, mut there) = sealed(1000);
    here.write_all(b"not").await.unwrap();
    here.flush().await.unwrap();
    drop(here);
    let cut = there.read_to_end(&mut Vec::new()).await.unwrap_err();
    assert_eq!(cut.kind(), io::ErrorKind::UnexpectedEof);
}

#[tokio::test]
async fn changed_noise_frame_is_refused() {
    let (here, theirs) = tokio::io::duplex(1000);
    let mut dialling = Handshake::dialling(&key(1), b"test").unwrap();
    let mut accepting = Handshake::accepting(&key(1), b"test").unwrap();
    assert!(accepting.hear(&dialling.say().unwrap()));
    assert!(dialling.hear(&accepting.say().unwrap()));
    let mut here = dialling.seal(here).unwrap();
    here.write_all(b"pay 1").await.unwrap();
    here.flush().await.unwrap();
    let (mut between, mut raw) = (theirs, vec![0; LENGTH_BYTES + 5 + TAG_BYTES]);
    between.read_exact(&mut raw).await.unwrap();
    assert!(!raw.windows(3).any(|bytes| bytes == b"pay"), "the content is not readable on the way");
    raw[LENGTH_BYTES + 4] ^= 1;
    let (mut changed, there) = tokio::io::duplex(1000);
    changed.write_all(&raw).await.unwrap();
    let refused = accepting.seal(there).unwrap().read_u8().await.unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
}

#[test]
fn noise_handshake_with_another_key_or_purpose_is_refused() {
    for (whose, purpose) in [(2, b"test".as_slice()), (1, b"else")] {
        let mut dialling = Handshake::dialling(&key(whose), purpose).unwrap();
        let mut accepting = Handshake::accepting(&key(1), b"test").unwrap();
        assert!(!accepting.hear(&dialling.say().unwrap()));
    }
    // An acceptor without the key cannot answer either.
    let mut dialling = Handshake::dialling(&key(1), b"test").unwrap();
    dialling.say().unwrap();
    assert!(!dialling.hear(&[7; HANDSHAKE_BYTES]));
}
