//! Mutants of realistic texts, compared with shfmt wherever bash accepts them.
//!
//! Skipped without shfmt (PyPI package `shfmt-py`); `.ci/run` installs it.
//! `AGENT_SH_MUTANTS` sets how many mutants both must accept; 3,000 without it.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, RngSeed, TestRunner};

use super::{Dialect, scan};
use crate::generated::cases;

/// Texts as agents write them.
const BASES: &[&str] = &[
    "npm run dev > /tmp/dev.log 2>&1 &\nsleep 3 && curl -s localhost:3000 | head -5\n",
    "cd /srv/app && nohup python3 -m http.server 8000 >/dev/null 2>&1 &\necho $! > /tmp/pid\n",
    "for i in 1 2 3; do sleep $i & done; wait\n",
    "while read -r line; do echo \"$line\" & done < <(ls -1 | sort) > out.txt 2>&1\n",
    "if [ \"$a\" = \"&\" ]; then b & elif c; then d; else e & fi\n",
    "case \"$1\" in start) run & ;; stop|halt) kill \"$pid\" ;; *) echo \"usage: $0\" >&2 ;; esac\n",
    "f() { local x=$(date +%s); g \"$x\" & }\nf a b && f c\n",
    "git commit -m \"$(cat <<'EOF'\nfeat: a & b (c)\n\nit's \"x\" & y\nEOF\n)\" && git push\n",
    "cat <<EOF > conf.txt\nname = $USER & co\nvalue = $(hostname) `id -u`\nEOF\ncat conf.txt | tee log &\n",
    "arr=(a b \"c & d\"); echo \"${arr[@]}\" ${#arr[@]} ${arr[1]:-x&y}\n",
    "x=$((1 & 3)); (( x &= 2 )) && echo $(( x << 2 )) || echo \"none\"\n",
    "[[ -f a && ( -d b || $x =~ ^(a|b)+$ ) ]] && echo yes\n",
    "{ make -j4 all; make test; } > build.log 2>&1 & pid=$!\ntrap 'kill $pid' EXIT\nwait \"$pid\"\n",
    "(cd sub && ./run.sh --flag=\"a b\" | grep -v '^#' | awk '{print $1 & 1}') &\n",
    "docker run --rm -p 80:80 img sh -c \"a & b & wait\" && ssh host 'nohup x & disown'\n",
    "until curl -sf http://localhost:8080/health; do sleep 1; done; echo ready\n",
    "python3 - <<'PY'\nimport os\nprint(1 & 2, \"x\")\nPY\necho done\n",
    "find . -name '*.rs' -exec grep -l 'a & b' {} \\; | xargs -P4 -I{} sh -c 'foo {} & bar'\n",
    "diff <(sort a.txt) <(sort b.txt | uniq) > /dev/null || echo \"differ: $?\"\n",
    "echo \"a $(echo \"b $(echo \"c & d\" | cat)\" | cat)\" 'e & f' $'g\\'h'\n",
    "for ((i = 0; i < 10; i++)); do\n  printf '%s\\n' \"$i\" # a & comment\ndone | sort -n\n",
    "set -euo pipefail\nexport PATH=\"$HOME/bin:$PATH\"\n./configure --prefix=/usr \\\n  --enable-x \\\n  && make && sudo make install\n",
    "eval \"$(ssh-agent -s)\" && ssh-add ~/.ssh/id 2>/dev/null; time { a; b; }\n",
    "cmd1 |& tee log; cmd2 &> out; cmd3 &>> out; cmd4 >& out2; cmd5 2>&1 >&3 3>&-\n",
    "select opt in one two; do echo $opt; break; done <<< \"1\"\n",
    "tail -f log & TAIL=$!; ( sleep 5; kill $TAIL ) & wait $TAIL 2>/dev/null\n",
    "function start-server { exec -a name ./server \"${@:2}\" </dev/null; }; start-server 1 2 &\n",
    "echo ${x//&/and} ${y%%&*} ${z:-\"a & b\"} \"${w:-`date`}\" ${v:+$(ls)}\n",
    "a=1 b=\"x y\" c=$(pwd) ./cmd -- \"$@\" >>log 2>&1 < /dev/null &\nsleep 1; kill -0 $! && echo up\n",
    "! grep -q x f && { echo no; exit 1; } || true; coproc cat; echo hi >&\"${COPROC[1]}\"\n",
];

const INSERTS: &[&str] = &[
    "&",
    " & ",
    "&&",
    " && ",
    "2>&1",
    " 2>&1 ",
    "'",
    "\"",
    "(",
    ")",
    "{ ",
    " }",
    "$(",
    "`",
    "[",
    "]",
    ";",
    "\n",
    "|",
    " |& ",
    "\\",
    "$((",
    "))",
    "${",
    "}",
    "<(",
    "#",
    " #",
    "<<E\n",
    ";;",
    "!",
    " ! ",
    "&>",
    "[[ ",
    " ]]",
    "((",
    "=",
    "$",
    "\\\n",
    "if a; then b; fi",
    "(a &)",
    "{ a & }",
    "$(a &)",
    "`a &`",
    " esac ",
    "case x in a) b & esac",
    "*(",
    "time ",
];

/// One of the texts, or two, with up to three changes.
fn mutant() -> impl Strategy<Value = String> {
    let base = || select(BASES);
    let texts = (base(), weighted(0.25, base())).prop_map(|(text, more)| {
        let more = more.unwrap_or_default();
        format!("{text}{more}")
    });
    let changes = vec((any::<Index>(), select(INSERTS)), 1..=3);
    (texts, changes).prop_map(|(mut text, changes)| {
        for (at, inserted) in changes {
            let mut at = at.index(text.len() + 1);
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            text.insert_str(at, inserted);
        }
        text
    })
}

/// Whether bash reads the text without a word. A here-document without its end is no good for a
/// comparison: shfmt takes an expansion that ends with the delimiter for the end.
fn bash_accepts(text: &str) -> bool {
    let output = Command::new("bash")
        .args(["-n", "-c", text])
        .stdin(Stdio::null())
        .output()
        .expect("bash runs");
    output.status.success() && output.stderr.is_empty()
}

/// The offsets of shfmt's background operators, or `None` if it does not parse the text.
fn shfmt(text: &str) -> Option<Vec<usize>> {
    let mut child = Command::new("shfmt")
        .args(["--to-json", "-ln", "bash"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("shfmt runs");
    let written = child
        .stdin
        .take()
        .expect("stdin is a pipe")
        .write_all(text.as_bytes());
    let output = child.wait_with_output().expect("shfmt runs");
    if written.is_err() || !output.status.success() {
        return None;
    }
    let json = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    let mut found = Vec::new();
    // The tree may be deeper than a JSON reader likes; the two fields are always neighbours.
    for (at, _) in json.match_indices("\"Background\": true") {
        let before = &json[..at];
        let semicolon = before.rfind("\"Semicolon\"").expect("a position");
        let offset = &before[semicolon..];
        let digits = offset.find("\"Offset\": ").expect("an offset") + "\"Offset\": ".len();
        let number: String = offset[digits..]
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        found.push(number.parse().expect("a number"));
    }
    found.sort_unstable();
    Some(found)
}

#[derive(Default)]
struct Score {
    compared: usize,
    accepted: usize,
    right: usize,
    missed: usize,
    shown: Vec<String>,
}

#[test]
fn mutants_agree_with_shfmt() {
    let wanted: usize = std::env::var("AGENT_SH_MUTANTS")
        .ok()
        .and_then(|number| number.parse().ok())
        .unwrap_or(3_000);
    // One that is found may still be a wrapper around nothing.
    let version = Command::new("shfmt").arg("--version").output();
    if !version.is_ok_and(|output| output.status.success()) {
        crate::skip::missing("shfmt");
        return;
    }
    let score = Mutex::new(Score::default());
    let threads = thread::available_parallelism().map_or(2, usize::from);
    let each = u32::try_from(wanted.div_ceil(threads)).expect("a number of cases");
    thread::scope(|scope| {
        for thread in 0..threads {
            let score = &score;
            scope.spawn(move || {
                let mut runner = TestRunner::new(Config {
                    rng_seed: RngSeed::Fixed(thread as u64),
                    max_global_rejects: u32::MAX,
                    ..cases(each)
                });
                let result = runner.run(&mutant(), |text| {
                    // shfmt refuses more, so bash is asked second.
                    let truth = shfmt(&text).filter(|_| bash_accepts(&text));
                    let truth = truth.ok_or_else(|| TestCaseError::reject("no valid text"))?;
                    let mut score = score.lock().expect("no panic before");
                    let wrong = compare(&text, &truth, &mut score);
                    prop_assert!(wrong.is_empty(), "{wrong:?} are no background operators");
                    Ok(())
                });
                // The smallest text that is read wrongly.
                assert!(result.is_ok(), "{}", result.expect_err("a failure"));
            });
        }
    });
    let score = score.into_inner().expect("no panic");
    for text in &score.shown {
        println!("{text}");
    }
    println!(
        "{} mutants, {} understood, {} right, {} missed",
        score.compared, score.accepted, score.right, score.missed
    );
    assert!(score.missed * 1000 <= score.right, "recall");
}

/// Adds to the score, and gives the operators that are none.
fn compare(text: &str, truth: &[usize], score: &mut Score) -> Vec<usize> {
    let script = scan(text.as_bytes(), Dialect::Bash);
    let ours: &[usize] = if script.ok { &script.amps } else { &[] };
    score.compared += 1;
    score.accepted += usize::from(script.ok);
    let right = ours.iter().filter(|amp| truth.contains(amp)).count();
    score.right += right;
    score.missed += truth.len() - right;
    if (ours != truth || !script.ok) && score.shown.len() < 40 {
        score.shown.push(format!(
            "---- ours {ours:?} ok {} {:?}, shfmt {truth:?}\n{text}",
            script.ok, script.why
        ));
    }
    let wrong = ours.iter().filter(|amp| !truth.contains(amp));
    wrong.copied().collect()
}
