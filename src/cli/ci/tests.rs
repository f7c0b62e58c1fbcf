use super::*;

fn case(verdict: Verdict, command: &str, tail: &str) -> Case {
    let state = match verdict {
        Verdict::Failed => State::Exited,
        Verdict::Running => State::Running,
        Verdict::Succeeded => State::Exited,
    };
    Case {
        id: "7f3k".to_owned(),
        name: None,
        verdict,
        state,
        ending: "exited with 3 after 4.2s".to_owned(),
        command: command.to_owned(),
        seconds: 4.25,
        started_at: "2026-01-02T03:04:05.678Z".to_owned(),
        tail: tail.to_owned(),
    }
}

fn report(fail_on: FailOn, cases: Vec<Case>) -> Report {
    Report {
        session: Some("github-1-build-1-runner".to_owned()),
        cases,
        fail_on,
    }
}

#[test]
fn the_policy() {
    use Verdict::{Failed, Running, Succeeded};
    for (fail_on, wanted) in [
        (FailOn::Failed, [false, false, true, true]),
        (FailOn::Running, [false, true, false, true]),
        (FailOn::Any, [false, true, true, true]),
        (FailOn::None, [false, false, false, false]),
    ] {
        let all: [&[Verdict]; 4] = [
            &[Succeeded],
            &[Succeeded, Running],
            &[Succeeded, Failed],
            &[Running, Failed],
        ];
        for (verdicts, wanted) in all.into_iter().zip(wanted) {
            let cases = verdicts.iter().map(|&verdict| case(verdict, "x", ""));
            let report = report(fail_on, cases.collect());
            assert_eq!(report.is_failure(), wanted, "{fail_on:?} {verdicts:?}");
        }
    }
}

/// Lines outside of fences, with code spans taken out: what a reader takes for Markdown.
fn read_as_markdown(page: &str) -> String {
    let mut fence: Option<usize> = None;
    let mut seen = String::new();
    for line in page.lines() {
        let ticks = line.len() - line.trim_start_matches('`').len();
        match fence {
            Some(open) if ticks >= open && line.trim_start_matches('`').is_empty() => fence = None,
            Some(_) => {}
            None if ticks >= 3 && line.trim_start_matches('`') == "text" => fence = Some(ticks),
            None => {
                seen.push_str(&without_spans(line));
                seen.push('\n');
            }
        }
    }
    assert_eq!(fence, None, "a fence stays open in {page}");
    seen
}

fn without_spans(line: &str) -> String {
    let mut rest = line;
    let mut seen = String::new();
    while let Some(at) = rest.find('`') {
        seen.push_str(&rest[..at]);
        rest = &rest[at..];
        let ticks = rest.len() - rest.trim_start_matches('`').len();
        let mut inner = &rest[ticks..];
        loop {
            let Some(next) = inner.find('`') else {
                panic!("a span stays open in {line}");
            };
            inner = &inner[next..];
            let run = inner.len() - inner.trim_start_matches('`').len();
            inner = &inner[run..];
            if run == ticks {
                break;
            }
        }
        rest = inner;
    }
    seen + rest
}

#[test]
fn nothing_of_a_job_is_read_as_markdown() {
    let nasty = "```\n# EVIL\n````\n<script>EVIL</script>\n~~~\n[EVIL](http://x)\n</details>\n`````text\nEVIL";
    let commands = [
        "echo `EVIL` <img src=EVIL>",
        "`EVIL`",
        "``EVIL",
        "EVIL` ```",
        "a | EVIL \\| b",
    ];
    for command in commands {
        let cases = [Verdict::Failed, Verdict::Running, Verdict::Succeeded];
        let cases = cases.map(|verdict| case(verdict, command, nasty));
        let page = markdown::text(&report(FailOn::Failed, cases.into()), usize::MAX);
        let seen = read_as_markdown(&page);
        assert!(!seen.contains("EVIL") && !seen.contains('|'), "{page}");
        assert_eq!(seen.matches("<details>").count(), 1, "{page}");
        assert!(page.contains(nasty), "{page}");
        assert!(page.contains(command), "{page}");
    }
}

#[test]
fn a_long_summary_is_cut_between_jobs() {
    let long = "x".repeat(4000);
    let cases: Vec<Case> = (0..300)
        .map(|number| case(Verdict::Failed, &format!("make {number}"), &long))
        .collect();
    let report = report(FailOn::Failed, cases);
    let page = markdown::text(&report, usize::MAX);
    assert!(page.contains("make 299") && !page.contains("make 199`"));
    assert!(page.contains("and 200 more"), "{page}");
    for room in [100_000, 20_000, 5000, 100, 0] {
        let page = markdown::text(&report, room);
        assert!(page.len() <= room, "{} of {room}", page.len());
        read_as_markdown(&page);
        assert!(room < 5000 || page.contains("300 failed"), "{page}");
    }
}

#[test]
fn annotations_stay_on_their_line() {
    let tail = "100%\r\n::error::EVIL\n ::add-mask::EVIL\n##[error]EVIL";
    let cases = vec![
        case(Verdict::Failed, "a, b: 50%", tail),
        case(Verdict::Running, "sleep 9", ""),
        case(Verdict::Succeeded, "true", ""),
    ];
    let text = annotations::text(&report(FailOn::Failed, cases));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "::error title=agent-sh%3A job 7f3k exited with 3 after 4.2s::job 7f3k exited with 3 after 4.2s: a, b: 50%25\
             %0A100%25%0D%0A::error::EVIL%0A ::add-mask::EVIL%0A##[error]EVIL",
            "::warning title=agent-sh%3A job 7f3k exited with 3 after 4.2s::job 7f3k exited with 3 after 4.2s: sleep 9",
        ]
    );
    let running = vec![case(Verdict::Running, "sleep 9", "")];
    let text = annotations::text(&report(FailOn::Any, running));
    assert!(text.starts_with("::error "), "{text}");
}

#[test]
fn no_command_for_the_runner_on_stdout() {
    let page = "```text\n::error::EVIL\n  ::stop-commands::x\na ##[error]x\n```\n";
    assert_eq!(
        markdown::without_commands(page),
        "```text\n\\::error::EVIL\n  \\::stop-commands::x\na ##\\[error]x\n```\n"
    );
}

#[test]
fn junit_is_xml_whatever_a_job_wrote() {
    let tail = "]]> & <b a=\"1\" c='2'>\n\ttab \u{1}\u{b}\u{fffe}\u{ffff}\u{1f600}\u{85} ##[error]";
    let cases = vec![
        case(Verdict::Failed, "make <x> & \"y\"", tail),
        case(Verdict::Succeeded, "true", ""),
        case(Verdict::Running, "sleep 9", ""),
        case(Verdict::Running, "sleep 9", ""),
    ];
    let xml = junit::text(&report(FailOn::Failed, cases));
    for wanted in [
        "<testsuite name=\"github-1-build-1-runner\" tests=\"4\" failures=\"1\" errors=\"0\" skipped=\"2\" time=\"17.000\" timestamp=\"2026-01-02T03:04:05.678\">",
        "<testcase name=\"make &lt;x&gt; &amp; &quot;y&quot;\" classname=\"agent-sh\" time=\"4.250\">",
        "<failure message=\"job 7f3k exited with 3 after 4.2s\" type=\"exited\">",
        "]]&gt; &amp; &lt;b a=&quot;1&quot; c=&apos;2&apos;&gt;&#10;&#9;tab \u{1f600}\u{85} ##&#91;error]</failure>",
        "<testcase name=\"true\" ",
        "<testcase name=\"sleep 9 (7f3k)\" ",
        "<skipped message=",
    ] {
        assert!(xml.contains(wanted), "{wanted} in {xml}");
    }
    let strict = vec![case(Verdict::Running, "sleep 9", "")];
    let xml = junit::text(&report(FailOn::Any, strict));
    assert!(
        xml.contains("failures=\"1\"") && xml.contains("type=\"running\""),
        "{xml}"
    );
}
