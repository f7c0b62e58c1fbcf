//! agentapi, which types into the terminal of whatever agent it runs.

use std::time::Duration;

use serde_json::json;

use crate::notify::agent::{Waking, Woken};
use crate::notify::http::{Url, post_json};

/// Where it listens unless told otherwise.
const PORT: &str = "3284";
const LIMIT: Duration = Duration::from_secs(10);

/// Wakes the agent by a message from its user.
pub(crate) fn wake(waking: &Waking<'_>) -> Woken {
    let known = &waking.launch.wake;
    let base = known.get("AGENTAPI_URL").cloned().unwrap_or_else(|| {
        let port = known.get("AGENTAPI_PORT").map_or(PORT, String::as_str);
        format!("http://127.0.0.1:{port}")
    });
    let url: Url = match format!("{}/message", base.trim_end_matches('/')).parse() {
        Ok(url) => url,
        Err(why) => return Woken::Failed(why),
    };
    let text = format!("[agent-sh] {}", waking.notice.trim_end());
    let body = json!({ "content": text, "type": "user" }).to_string();
    match post_json(&url, None, &body, LIMIT) {
        Ok(200..=299) => Woken::Told,
        // It refuses while the agent is at work.
        Ok(status) => Woken::Failed(format!("{} answered {status}", url.origin())),
        Err(why) => Woken::Failed(why),
    }
}
