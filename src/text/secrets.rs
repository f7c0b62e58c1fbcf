//! The words by which secrets are known.

/// Beginnings of well-known tokens, with the fewest characters that must follow.
pub(super) const PREFIXES: &[(&str, usize)] = &[
    ("ghp_", 10),
    ("gho_", 10),
    ("ghu_", 10),
    ("ghs_", 10),
    ("ghr_", 10),
    ("github_pat_", 10),
    ("glpat-", 10),
    ("gldt-", 10),
    ("xoxb-", 8),
    ("xoxp-", 8),
    ("xoxa-", 8),
    ("xoxr-", 8),
    ("xoxs-", 8),
    ("xapp-", 8),
    ("AKIA", 12),
    ("ASIA", 12),
    ("AIza", 20),
    ("ya29.", 10),
    ("eyJ", 20),
    ("sk_live_", 8),
    ("sk_test_", 8),
    ("rk_live_", 8),
    ("pk_live_", 8),
    ("whsec_", 8),
    ("shpat_", 10),
    ("hf_", 16),
    ("dop_v1_", 10),
    ("pypi-", 16),
    ("SG.", 16),
    ("lin_api_", 10),
    ("dckr_pat_", 10),
    ("AGE-SECRET-KEY-", 10),
    ("hvs.", 10),
    ("tskey-", 10),
];

/// Beginnings that ordinary words share: what follows must also look random.
pub(super) const VAGUE_PREFIXES: &[(&str, usize)] =
    &[("sk-", 16), ("npm_", 16), ("key-", 24), ("pat_", 20)];

/// Words that make a name a secret's, as one part of `MY_API_TOKEN` or `dbPassword`.
pub(super) const SECRET_PARTS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "passwort",
    "pass",
    "pwd",
    "pw",
    "secret",
    "secrets",
    "token",
    "apikey",
    "auth",
    "authorization",
    "credential",
    "credentials",
    "cookie",
    "bearer",
    "jwt",
    "otp",
    "pin",
];

/// Words that do so anywhere in a name that runs its parts together, such as `PGPASSWORD`.
pub(super) const SECRET_PIECES: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "secret",
    "apikey",
    "accesskey",
    "privatekey",
    "credential",
    "authorization",
    "authtoken",
];

/// What stands before `key` when a key is a secret one.
pub(super) const KEY_KINDS: &[&str] = &[
    "api",
    "access",
    "private",
    "secret",
    "encryption",
    "signing",
    "auth",
    "account",
    "master",
    "license",
    "storage",
    "shared",
    "client",
    "deploy",
];

/// Whether a name is one that secrets have.
pub(super) fn is_secret_name(name: &str) -> bool {
    if name.is_empty() || name.len() > 128 {
        return false;
    }
    let lower = name.to_ascii_lowercase();
    if SECRET_PIECES.iter().any(|piece| lower.contains(piece)) || lower.ends_with("token") {
        return true;
    }
    let parts: Vec<String> = parts(name);
    parts
        .iter()
        .any(|part| SECRET_PARTS.contains(&part.as_str()))
        || parts
            .windows(2)
            .any(|pair| pair[1] == "key" && KEY_KINDS.contains(&pair[0].as_str()))
}

/// `MY_API-key` and `myApiKey` both are `my api key`.
fn parts(name: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut part = String::new();
    let mut was_lower = false;
    for letter in name.chars() {
        let splits = !letter.is_ascii_alphanumeric();
        if (splits || (letter.is_ascii_uppercase() && was_lower)) && !part.is_empty() {
            parts.push(std::mem::take(&mut part));
        }
        if !splits {
            part.push(letter.to_ascii_lowercase());
        }
        was_lower = letter.is_ascii_lowercase() || letter.is_ascii_digit();
    }
    if !part.is_empty() {
        parts.push(part);
    }
    parts
}
