//! What only tests need is in no release.

use super::root;

fn manifest() -> toml::Table {
    let text = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    text.parse().unwrap()
}

/// Nothing turns the pause points on by itself, and a build with optimisation refuses them.
#[test]
fn no_release_has_pause_points() {
    let manifest = manifest();
    let features = manifest["features"].as_table().unwrap();
    assert_eq!(features["test-hooks"].as_array().unwrap().len(), 0);
    for (name, enabled) in features.iter().filter(|(name, _)| *name != "test-hooks") {
        let enabled = enabled.as_array().unwrap().iter();
        let enables = enabled.filter_map(|feature| feature.as_str());
        let mut hooks = enables.filter(|feature| feature.contains("test-hooks"));
        assert_eq!(hooks.next(), None, "the feature {name}");
    }
    for table in ["dependencies", "dev-dependencies"] {
        let packages = manifest[table].as_table().unwrap();
        // As its own dependency it would have the feature in `cargo bench`, which builds a release.
        assert!(!packages.contains_key("agent-sh"), "{table}");
    }
    let points = std::fs::read_to_string(root().join("src/sys/pause.rs")).unwrap();
    let refusal = "#[cfg(all(feature = \"test-hooks\", not(debug_assertions)))]\ncompile_error!(";
    assert!(points.contains(refusal));
}
