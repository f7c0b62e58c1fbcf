//! What can be wrong with a broker, and that nothing is lost by it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use serde_json::json;

use super::server::{self, Nats};
use super::{agent_sh, count, sandbox, standing};
use crate::support::{Sandbox, Status, has, wait_until};

/// A file that only its owner reads.
fn private(sandbox: &Sandbox, name: &str, text: &str) -> String {
    let path = sandbox.path(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Subscribes, and has a test event refused: why, as the user is told.
#[track_caller]
fn refused(sandbox: &Sandbox, url: &str, more: &[&str]) -> String {
    let words = [&["notify", "add", url, "--as", "x"], more].concat();
    let added = sandbox.call("agent-sh").args(words).run();
    assert!(added.succeeded(), "{added:?}");
    let tested = sandbox.agent_sh(["notify", "test", "x"]);
    assert_eq!(tested.status, Status::Exited(125), "{tested:?}");
    tested.errors()
}

/// A job's events stay pending with the reason.
#[track_caller]
fn kept(sandbox: &Sandbox, why: &str) {
    agent_sh(sandbox, &["run", "true"]);
    wait_until("it was tried", || {
        // Only the first of a job's events is tried: its end comes after its start.
        let claims = sandbox.state().join("v1/subs/x/claim");
        let names = fs::read_dir(claims)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let text: String = names
            .map(|path| fs::read_to_string(path).unwrap_or_default())
            .collect();
        text.contains(why)
    });
    assert_eq!(count(&standing(sandbox, "x"), "pending"), 1);
}

#[test]
fn nats_with_a_wrong_password() {
    let Some(sandbox) = sandbox() else { return };
    let more = "authorization { users: [ { user: me, password: right } ] }";
    let Some(server) = server::nats(&sandbox, more) else {
        return;
    };
    let wrong = private(&sandbox, "wrong", "wrong\n");
    let url = format!("nats://me@127.0.0.1:{}/JOBS", server.port);
    let said = refused(&sandbox, &url, &["--password-file", &wrong]);
    assert!(
        said.contains("refuses these credentials") && !said.contains("wrong"),
        "{said}"
    );
    kept(&sandbox, "refuses these credentials");
    // Once it is right, what was kept is delivered.
    fs::write(&wrong, "right\n").unwrap();
    wait_until("it is delivered", || {
        agent_sh(&sandbox, &["ps"]);
        count(&standing(&sandbox, "x"), "delivered") == 2
    });
}

#[test]
fn redis_with_a_wrong_password() {
    let Some(sandbox) = sandbox() else { return };
    let Some(server) = server::redis(&sandbox, &["--requirepass", "right"]) else {
        return;
    };
    let wrong = private(&sandbox, "wrong", "wrong");
    let url = format!("redis://127.0.0.1:{}/0/jobs", server.port);
    let said = refused(&sandbox, &url, &["--password-file", &wrong]);
    assert!(
        said.contains("refuses these credentials") && !said.contains("wrong"),
        "{said}"
    );
    kept(&sandbox, "refuses these credentials");
    fs::write(&wrong, "right").unwrap();
    wait_until("it is delivered", || {
        agent_sh(&sandbox, &["ps"]);
        count(&standing(&sandbox, "x"), "delivered") == 2
    });
}

#[test]
fn accounts_that_may_only_read() {
    let Some(sandbox) = sandbox() else { return };
    let more = "authorization { users: [ { user: me, password: right, permissions: { publish: { deny: \">\" } } } ] }";
    let Some(server) = server::nats(&sandbox, more) else {
        return;
    };
    let right = private(&sandbox, "right", "right");
    let url = format!("nats://me@127.0.0.1:{}/JOBS", server.port);
    let before = Instant::now();
    let said = refused(&sandbox, &url, &["--password-file", &right]);
    assert!(
        said.to_lowercase().contains("permissions violation"),
        "{said}"
    );
    assert!(
        before.elapsed().as_secs() < 9,
        "the complaint was not heard: {:?}",
        before.elapsed()
    );
    kept(&sandbox, "ermissions");
    agent_sh(&sandbox, &["notify", "remove", "x"]);

    let reader = [
        "--user",
        "reader",
        "on",
        ">right",
        "~*",
        "+@read",
        "+@connection",
    ];
    let Some(server) = server::redis(&sandbox, &reader) else {
        return;
    };
    let url = format!("redis://reader@127.0.0.1:{}/0/jobs", server.port);
    let said = refused(&sandbox, &url, &["--password-file", &right]);
    assert!(said.contains("may not"), "{said}");
}

#[test]
fn streams_that_are_full_or_missing() {
    let Some(sandbox) = sandbox() else { return };
    let more = "authorization { users: [ { user: me, password: right, permissions: { publish: { deny: \"$JS.API.STREAM.CREATE.>\" } } }, \
        { user: admin, password: right } ] }";
    let Some(server) = server::nats(&sandbox, more) else {
        return;
    };
    let right = private(&sandbox, "right", "right");
    let url = format!("nats://me@127.0.0.1:{}/JOBS", server.port);
    let said = refused(&sandbox, &url, &["--password-file", &right]);
    assert!(
        said.contains("there is no stream 'JOBS'") && said.contains("cannot be made"),
        "{said}"
    );
    kept(&sandbox, "there is no stream");
    let mut admin = Nats::new(&server, &json!({"user": "admin", "pass": "right"}));
    let config = json!({
        "name": "JOBS", "subjects": ["JOBS.>"], "max_msgs": 1, "discard": "new", "storage": "memory",
        "retention": "limits", "num_replicas": 1,
    });
    let made = admin.api("STREAM.CREATE.JOBS", &config);
    assert!(made["error"].is_null(), "{made}");
    // One fits: the start of the job. Its end is told why it does not.
    wait_until("the stream is full", || {
        agent_sh(&sandbox, &["ps"]);
        let standing = standing(&sandbox, "x");
        let why = standing["pending"][0]["why"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        why.contains("maximum messages exceeded")
    });
    assert_eq!(admin.all("JOBS").len(), 1);
    let tested = sandbox.agent_sh(["notify", "test", "x"]);
    assert!(
        tested.errors().contains("maximum messages exceeded"),
        "{tested:?}"
    );
    let mut config = config;
    config["max_msgs"] = json!(-1);
    admin.api("STREAM.UPDATE.JOBS", &config);
    wait_until("the rest is delivered", || {
        agent_sh(&sandbox, &["ps"]);
        count(&standing(&sandbox, "x"), "pending") == 0
    });
    // A stream of somebody else that takes no roll-ups takes beats as they are.
    assert_eq!(
        admin
            .all("JOBS")
            .iter()
            .filter(|kept| kept.subject.ends_with(".exit"))
            .count(),
        1
    );
}

#[test]
fn redis_without_room() {
    let Some(sandbox) = sandbox() else { return };
    let Some(server) = server::redis(
        &sandbox,
        &["--maxmemory", "1", "--maxmemory-policy", "noeviction"],
    ) else {
        return;
    };
    let url = format!("redis://127.0.0.1:{}/0/jobs", server.port);
    let said = refused(&sandbox, &url, &[]);
    assert!(said.contains("no memory left"), "{said}");
    kept(&sandbox, "no memory left");
    server::redis_cli(&server, &["config", "set", "maxmemory", "0"]);
    wait_until("it is delivered", || {
        agent_sh(&sandbox, &["ps"]);
        count(&standing(&sandbox, "x"), "delivered") == 2
    });
    assert_eq!(server::redis_events(&server, "jobs").len(), 2);
}

#[test]
fn brokers_that_hang_or_are_gone() {
    for scheme in ["nats", "redis"] {
        let Some(sandbox) = sandbox() else { return };
        let db = if scheme == "redis" { "0/" } else { "" };
        let (listener, port) = server::mute();
        let said = refused(
            &sandbox,
            &format!("{scheme}://127.0.0.1:{port}/{db}JOBS"),
            &[],
        );
        assert!(said.contains("no answer within 10s"), "{said}");
        let before = Instant::now();
        kept(&sandbox, "no answer within");
        wait_until("the helpers have left", || sandbox.deliverers().is_empty());
        let took = before.elapsed();
        assert!(took < server::PATIENCE, "{took:?}");
        drop(listener);
        let tested = sandbox.agent_sh(["notify", "test", "x"]);
        assert!(tested.errors().contains("cannot connect"), "{tested:?}");
    }
}

/// The certificate is for another name: nothing is sent, and nothing is lost.
#[test]
fn certificates_for_another_name() {
    let Some(sandbox) = sandbox() else { return };
    if !has("openssl") {
        return;
    }
    let file = |name: &str| sandbox.path(name).to_str().unwrap().to_owned();
    let (key, cert) = (file("key.pem"), file("cert.pem"));
    for (name, works) in [("DNS:elsewhere.example", false), ("DNS:localhost", true)] {
        let made = sandbox
            .real_call("openssl")
            .args([
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
                "-addext",
                "basicConstraints=critical,CA:FALSE",
                "-days",
                "30",
            ])
            .args([
                "-subj",
                "/CN=test",
                "-addext",
                &format!("subjectAltName={name}"),
            ])
            .args(["-keyout", &key, "-out", &cert])
            .run();
        assert!(made.succeeded(), "{made:?}");
        let tls = format!("tls {{ cert_file: \"{cert}\", key_file: \"{key}\" }}");
        let Some(nats) = server::nats(&sandbox, &tls) else {
            return;
        };
        let port = server::free_port().to_string();
        let words = [
            "--tls-port",
            &port,
            "--tls-cert-file",
            &cert,
            "--tls-key-file",
            &key,
            "--tls-auth-clients",
            "no",
        ];
        let Some(_redis) = server::redis(&sandbox, &words) else {
            return;
        };
        for url in [
            format!("tls://localhost:{}/JOBS", nats.port),
            format!("rediss://localhost:{port}/0/jobs"),
        ] {
            agent_sh(&sandbox, &["notify", "add", &url, "--as", "x"]);
            let test = sandbox.call("agent-sh").env("SSL_CERT_FILE", &cert);
            let tested = test.args(["notify", "test", "x"]).run();
            let said = tested.errors();
            if works {
                assert!(tested.succeeded(), "{url}: {said}");
            } else {
                assert!(
                    !tested.succeeded() && said.contains("TLS failed"),
                    "{url}: {said}"
                );
            }
            agent_sh(&sandbox, &["notify", "remove", "x"]);
        }
    }
}

#[test]
fn what_is_no_sink_is_refused() {
    let Some(sandbox) = sandbox() else { return };
    let open = sandbox.path("open");
    fs::write(&open, "secret").unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
    let open = open.to_str().unwrap();
    for (url, more, said) in [
        ("nats://me:secret@127.0.0.1/JOBS", &[][..], "password in it"),
        ("nats://127.0.0.1", &[], "of the form nats://"),
        ("redis://127.0.0.1/jobs", &[], "of the form redis://"),
        ("nats://me@127.0.0.1/JOBS", &[], "--password-file"),
        (
            "nats://me@127.0.0.1/JOBS",
            &["--password-file", open],
            "chmod 600",
        ),
        (
            "nats://127.0.0.1/JOBS",
            &["--creds-file", open],
            "chmod 600",
        ),
        (
            "nats://127.0.0.1/JOBS",
            &["--creds-file", "/nowhere"],
            "cannot be read",
        ),
    ] {
        let words = [&["notify", "add", url], more].concat();
        let ended = sandbox.call("agent-sh").args(words).run();
        let errors = ended.errors();
        assert!(
            !ended.succeeded() && errors.contains(said) && !errors.contains("secret"),
            "{url}: {errors}"
        );
    }
    agent_sh(
        &sandbox,
        &["notify", "add", "nats://10.1.2.3/JOBS", "--as", "x"],
    );
    let tested = sandbox.agent_sh(["notify", "test", "x"]);
    assert!(
        tested.errors().contains("--allow-private allows"),
        "{tested:?}"
    );
}
