//! No secret survives, and nothing else changes.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::generated::cases;

/// `CANARY` must be gone, everything else that is named must stay.
const CANARIES: &[&str] = &[
    "PASSWORD=CANARY npm start",
    "PGPASSWORD=CANARY psql -h db",
    "MYSQL_PWD=CANARY mysql",
    "export DB_PASS=CANARY; run",
    "GITHUB_TOKEN=CANARY gh pr list",
    "AWS_SECRET_ACCESS_KEY=CANARY aws s3 ls",
    "AWS_SECRET_ACCESS_KEY='CANARY with space' aws s3 ls",
    "AWS_SECRET_ACCESS_KEY=\"CANARY with space\" aws",
    "env API_KEY=CANARY node x",
    "env apiKey=CANARY node x",
    "OPENAI_API_KEY=ab\"CANARY\"'CANARY' node x",
    "prog --password CANARY --port 80",
    "prog --password=CANARY --port 80",
    "prog --password 'CANARY x' --port 80",
    "prog -password CANARY",
    "prog --api-key CANARY",
    "prog --auth-token CANARY run",
    "prog --client-secret=\"CANARY\"",
    "prog --token\tCANARY",
    "curl -H 'Authorization: Bearer CANARY' https://x",
    "curl -H \"Authorization: Basic CANARY=\" https://x",
    "curl -H 'Authorization: token CANARY' https://x",
    "curl -H AUTHORIZATION:CANARY https://x",
    "curl -H 'X-Api-Key: CANARY' https://x",
    "curl -H \"PRIVATE-TOKEN: CANARY\" https://x",
    "curl -H 'Cookie: sid=CANARY; other=CANARY' https://x",
    "curl --oauth2-bearer CANARY https://x",
    "curl -u admin:CANARY https://x",
    "curl --user 'admin:CANARY' https://x",
    "curl https://admin:CANARY@host/path",
    "git clone https://CANARY@github.com/a/b",
    "git clone 'https://oauth2:CANARY@gitlab.com/a/b'",
    "psql postgres://u:CANARY@db:5432/x",
    "redis-cli -u redis://:CANARY@h:6379",
    "psql postgres://u:pa/CANARY@db:5432/x",
    "curl -d '{\"password\":\"CANARY\",\"a\":1}' https://x",
    "curl -d '{\"user\": \"u\", \"token\": \"CANARY\"}' https://x",
    "curl -d \"{\\\"secret\\\":\\\"CANARY\\\"}\" https://x",
    "curl -d 'a=1&password=CANARY&b=2' https://x",
    "curl 'https://x/?access_token=CANARY&b=2'",
    "echo ghp_CANARYCANARY12 | gh auth login --with-token",
    "echo github_pat_CANARY1234567890",
    "export X=sk-CANARY1234567890abcdef",
    "run sk-ant-api03-CANARY1234567890",
    "slack xoxb-CANARY-1234-abcd",
    "slack xoxp-CANARY-1234-abcd",
    "aws AKIACANARY1234567890",
    "glab glpat-CANARY12345678",
    "npm config set //r/:_authToken=CANARY",
    "npm config set x npm_CANARY1234567890abcdefgh",
    "echo 'password: CANARY' > f.yml",
    "cat > .env <<E\nSECRET_KEY=CANARY\nPORT=1\nE",
    "sshpass -p CANARY ssh host",
    "mysql -uroot -pCANARY db",
    "echo '-----BEGIN RSA PRIVATE KEY-----\nCANARY\n-----END RSA PRIVATE KEY-----'",
    "x=eyJhbGciOiJIUzI1NiJ9.CANARY.abcdefghijk run",
    "wget --header=\"Authorization: Bearer CANARY\" x",
    "http POST x Authorization:'Bearer CANARY'",
    "docker login -u me --password-stdin <<< CANARYless; TOKEN=CANARY",
    "passphrase='CANARY' gpg",
    "git -c http.extraheader=\"AUTHORIZATION: basic CANARY\" fetch",
];

#[test]
fn no_canary_survives() {
    for command in CANARIES {
        let shown = redact(&command.replace("CANARYless", "x"));
        assert!(!shown.contains("CANARY"), "{command}\n{shown}");
        assert!(shown.contains(MARK), "{shown}");
    }
    assert!(CANARIES.len() >= 50);
}

#[test]
fn the_rest_stays() {
    for (command, shown) in [
        ("PASSWORD=x npm start", "PASSWORD=*** npm start"),
        (
            "prog --password x --port 80",
            "prog --password *** --port 80",
        ),
        ("curl 'https://u:p@h/x' -o f", "curl 'https://***@h/x' -o f"),
        (
            "curl -d 'a=1&token=t&b=2' u",
            "curl -d 'a=1&token=***&b=2' u",
        ),
        ("curl -u me:x u", "curl -u me:*** u"),
        ("T='a b'; TOKEN='a b' run", "T='a b'; TOKEN=*** run"),
        ("a; TOKEN=x; b", "a; TOKEN=***; b"),
    ] {
        assert_eq!(redact(command), shown);
    }
}

#[test]
fn no_secret_no_change() {
    for command in [
        "",
        "npm run dev",
        "TOKEN=$TOKEN run",
        "TOKEN=\"$TOKEN\" run",
        "TOKEN=$(cat f) run",
        "TOKEN=${TOKEN} run",
        "PASSWORD= run",
        "python train.py --max-tokens 100 --tokenizer gpt2",
        "max_tokens=4096 run",
        "git push origin main",
        "docker run -u 1000:1000 img",
        "npm_config_registry=https://r.example.com/ npm i",
        "pip install sk-learn-contrib",
        "curl https://host:8080/a@b",
        "curl http://localhost:3000/path?x=1",
        "mkdir -p a && cp --preserve=mode x y",
        "ssh -p 22 git@github.com",
        "grep -r keyboard monkey=1 key=value",
        "for f in *; do echo \"$f\"; done &",
        "prog --password --port 80",
    ] {
        assert_eq!(redact(command), command);
    }
}

/// What a text may be cut at, and what is more than one byte long.
const PIECES: [&str; 37] = [
    "é",
    "'",
    "\"",
    "\\",
    "password",
    "=",
    ":",
    " ",
    "://",
    "@",
    "--token",
    "ghp_",
    "-----BEGIN",
    "🦀",
    "Bearer",
    "-u",
    "\n",
    "mysql -p",
    "漢",
    "TOKEN",
    "-p",
    "--password",
    "Bearer ",
    "Authorization: ",
    "sk-",
    "-----BEGIN ",
    "PRIVATE KEY",
    "a",
    "7",
    "$",
    "{",
    "}",
    ",",
    "]",
    "sshpass ",
    "\u{200b}",
    "https",
];

proptest! {
    #![proptest_config(cases(10_000))]

    /// No text may end the process that shows it: every piece is cut between two characters.
    #[test]
    fn any_text_is_taken(text in vec(select(&PIECES[..]), 0..=12).prop_map(|all| all.concat())) {
        drop(redact(&text));
    }
}
