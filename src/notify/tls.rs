//! How brokers are believed: by the roots that this machine trusts.

use std::sync::{Arc, OnceLock};

use rustls::{ClientConfig, RootCertStore};

/// The settings of every encrypted connection to a broker.
#[cfg(feature = "nats")]
pub(super) fn config() -> ClientConfig {
    static CONFIG: OnceLock<ClientConfig> = OnceLock::new();
    CONFIG.get_or_init(make).clone()
}

#[cfg(feature = "nats")]
fn make() -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    match config {
        Ok(config) => config.with_root_certificates(roots).with_no_client_auth(),
        // The provider has the versions that are asked for.
        Err(_) => ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth(),
    }
}

/// For a client that asks the process for its cryptography.
#[cfg(feature = "redis")]
pub(super) fn provide() {
    drop(rustls::crypto::ring::default_provider().install_default());
}
