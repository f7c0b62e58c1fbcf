//! Jobs by id, beginning, name, and `last`.

use super::*;

#[test]
fn finding() {
    let (_keep, store) = store();
    let stores = [store];
    let store = &stores[0];
    let found = |wanted: &str, session: Option<&str>| {
        find(&stores, wanted, session).map(|view| view.launch.id)
    };
    assert!(matches!(
        found("last", None),
        Err(Error::NoLast { others: false })
    ));
    let make = |name: Option<&str>, session: Option<&str>, second: u64| {
        let mut draft = draft();
        draft.facts.name = name.map(str::to_owned);
        draft.facts.session = session.map(str::to_owned);
        draft.started = Some((
            std::time::UNIX_EPOCH + Duration::from_secs(second),
            Duration::ZERO,
        ));
        abandoned(store, draft)
    };
    let a = make(Some("web"), Some("s"), 1_000);
    let b = make(Some("web"), None, 50_000);
    let c = make(None, Some("s"), 80_000);
    assert_eq!(found(a.as_str(), None).unwrap(), a);
    // How much two ids that were made at once have in common is a matter of chance.
    let shared = |other: &JobId| {
        a.as_str()
            .bytes()
            .zip(other.as_str().bytes())
            .take_while(|(x, y)| x == y)
            .count()
    };
    let unique = shared(&b).max(shared(&c)) + 1;
    assert_eq!(found(&a.as_str()[..unique], None).unwrap(), a);
    assert_eq!(found("last", None).unwrap(), c);
    assert_eq!(found("last", Some("s")).unwrap(), c);
    assert!(found("last", Some("other")).is_err());
    assert_eq!(found("web", None).unwrap(), b);
    assert_eq!(found("web", Some("s")).unwrap(), a);
    for bad in ["", "..", "../x", "x/y", "nope", "\u{1b}[31m", "zzzzzz"] {
        assert!(
            matches!(found(bad, None), Err(Error::NoJob { .. })),
            "{bad}"
        );
    }
    // A name that is also the beginning of an id means the name.
    let d = make(Some(&a.as_str()[..2]), None, 81_000);
    assert_eq!(found(&a.as_str()[..2], None).unwrap(), d);
    let e = make(None, None, 1_000);
    let common: String = a
        .as_str()
        .chars()
        .zip(e.as_str().chars())
        .take_while(|(x, y)| x == y)
        .map(|(x, _)| x)
        .collect();
    if common.len() > 2 {
        assert!(
            matches!(found(&common, None), Err(Error::Ambiguous { .. })),
            "{common}"
        );
    }
    let order: Vec<_> = all_jobs(&stores)
        .unwrap()
        .into_iter()
        .map(|view| view.launch.facts.started_at)
        .collect();
    assert!(order.is_sorted());
}
