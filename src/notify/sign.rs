//! Signatures of webhooks, by the Standard Webhooks scheme: HMAC-SHA256 over `id.timestamp.body` with
//! a key that is written `whsec_…` in base64. The key is in a file that only its owner can read, and
//! nowhere else: no argument, no record, no message holds it.

use std::io::Read;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};

use crate::error::cause;
use crate::sys::fsx;

const PREFIX: &str = "whsec_";
/// By the scheme, a key has 24 to 64 bytes.
const SHORTEST: usize = 24;
const LONGEST: usize = 64;
const NEW: usize = 32;
const LARGEST_FILE: u64 = 16 * 1024;

/// A key. Its bytes are never shown.
pub(crate) struct Secret(Vec<u8>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// Reads a key file, which must belong to us and be closed to everybody else.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = read_private(path, "the secret")?;
        Self::parse(text.trim()).map_err(|why| format!("the secret in '{}' {why}", path.display()))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("is not '{PREFIX}' and {SHORTEST} to {LONGEST} bytes in base64");
        let encoded = text.strip_prefix(PREFIX).ok_or_else(wrong)?;
        let key = STANDARD.decode(encoded).map_err(|_| wrong())?;
        if !(SHORTEST..=LONGEST).contains(&key.len()) {
            return Err(wrong());
        }
        Ok(Self(key))
    }

    /// The text of a new key.
    pub(crate) fn generate() -> std::io::Result<String> {
        let mut key = [0; NEW];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut key)?;
        Ok(format!("{PREFIX}{}", STANDARD.encode(key)))
    }

    /// The value of `webhook-signature`.
    #[must_use]
    pub(crate) fn sign(&self, id: &str, timestamp: u64, body: &[u8]) -> String {
        let Ok(mut mac) = Hmac::<sha2::Sha256>::new_from_slice(&self.0) else {
            // HMAC takes keys of any length.
            return String::new();
        };
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

/// Reads a file that must belong to us and be closed to everybody else. `what` is in it.
pub(super) fn read_private(path: &Path, what: &str) -> Result<String, String> {
    let named = |why: &str| format!("{what} in '{}' {why}", path.display());
    let (file, stat) = fsx::open_regular(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::Unsupported => named("is no file"),
        _ => named(&format!("cannot be read: {}", cause(&error))),
    })?;
    if stat.st_uid != fsx::euid() {
        return Err(named("belongs to another user"));
    }
    if stat.st_mode & 0o077 != 0 {
        return Err(named("can be read by others; 'chmod 600' closes it"));
    }
    let mut text = String::new();
    file.take(LARGEST_FILE)
        .read_to_string(&mut text)
        .map_err(|_| named("is no text"))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the Standard Webhooks specification's own libraries.
    #[test]
    fn the_reference_vector() {
        let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        assert_eq!(
            secret.sign(
                "msg_p5jXN8AQM9LWM0D4loKWxJek",
                1_614_265_330,
                br#"{"test": 2432232314}"#
            ),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
    }

    #[test]
    fn only_closed_files_with_good_keys() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        let text = Secret::generate().unwrap();
        assert_ne!(text, Secret::generate().unwrap());
        std::fs::write(&path, format!("{text}\n")).unwrap();
        let mode = |mode| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(0o640);
        let why = Secret::read(&path).unwrap_err();
        assert!(
            why.contains("chmod 600") && !why.contains(&text[6..]),
            "{why}"
        );
        mode(0o600);
        assert!(Secret::read(&path).is_ok());
        for bad in ["", "whsec_", "whsec_c2hvcnQ=", "c2VjcmV0", "whsec_!!!!"] {
            std::fs::write(&path, bad).unwrap();
            assert!(Secret::read(&path).is_err(), "{bad}");
        }
        assert!(Secret::read(dir.path()).is_err());
        assert!(!format!("{:?}", Secret(vec![65; 24])).contains("65"));
    }
}
