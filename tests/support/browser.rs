//! A browser without a window, which is driven by the protocol of its developer tools over a pipe.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout};

use super::needs::{Presence, needs};
use super::*;

pub struct Browser {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    session: Option<String>,
    calls: u64,
    events: VecDeque<Value>,
    folder: TempDir,
}

impl Browser {
    /// Opens a file; `None`, with a report, on a machine without Chromium.
    pub fn open(page: &Path) -> Option<Self> {
        let program = Path::new("/usr/bin/chromium");
        needs(
            program.exists().then_some(()),
            "chromium, to use a page with its keyboard",
            Presence::Optional,
        )?;
        let folder = tempdir().unwrap();
        // The browser reads commands from file descriptor 3, and writes answers to 4.
        let profile = format!("--user-data-dir={}", folder.path().join("profile").display());
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null", "sh"]).arg(program);
        shell.args(["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", &profile]);
        let mut child =
            shell.arg("about:blank").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut browser =
            Self { child, input, output, session: None, calls: 0, events: VecDeque::new(), folder };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let target = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.call("Target.attachToTarget", target);
        let downloads =
            json!({"behavior": "allow", "downloadPath": browser.folder.path(), "eventsEnabled": true});
        browser.call("Browser.setDownloadBehavior", downloads);
        browser.session = Some(session["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page.enable", "Network.enable", "Runtime.enable"] {
            browser.call(domain, json!({}));
        }
        browser.call("Page.navigate", json!({"url": format!("file://{}", page.display())}));
        browser.wait("Page.loadEventFired", |_| true);
        Some(browser)
    }

    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.calls += 1;
        let mut message = json!({"id": self.calls, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let input = self.input.as_mut().unwrap();
        input.write_all(format!("{message}\0").as_bytes()).unwrap();
        input.flush().unwrap();
        loop {
            let mut answer = self.receive();
            if answer["id"] == self.calls {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].take();
            }
            self.events.push_back(answer);
        }
    }

    fn receive(&mut self) -> Value {
        let mut message = Vec::new();
        self.output.read_until(0, &mut message).unwrap();
        assert_eq!(message.pop(), Some(0), "the browser has ended");
        serde_json::from_slice(&message).unwrap()
    }

    /// The parameters of the next event of a method that `is` accepts.
    pub fn wait(&mut self, method: &str, is: impl Fn(&Value) -> bool) -> Value {
        let mut seen = 0;
        loop {
            while seen < self.events.len() {
                if self.events[seen]["method"] == method && is(&self.events[seen]["params"]) {
                    return self.events.remove(seen).unwrap()["params"].take();
                }
                seen += 1;
            }
            let event = self.receive();
            self.events.push_back(event);
        }
    }

    pub fn press(&mut self, key: &str) {
        let mut down = json!({"type": "keyDown", "key": key});
        if key.chars().count() == 1 {
            down["text"] = json!(key);
        }
        self.call("Input.dispatchKeyEvent", down);
        self.call("Input.dispatchKeyEvent", json!({"type": "keyUp", "key": key}));
    }

    pub fn value(&mut self, expression: &str) -> Value {
        self.call("Runtime.evaluate", json!({"expression": expression}))["result"]["value"].take()
    }

    pub fn reload(&mut self) {
        self.call("Page.reload", json!({}));
        self.wait("Page.loadEventFired", |_| true);
    }

    /// Waits until the file that the page saves is complete.
    pub fn saved(&mut self) -> PathBuf {
        let began = self.wait("Browser.downloadWillBegin", |_| true);
        self.wait("Browser.downloadProgress", |download| download["state"] == "completed");
        self.folder.path().join(began["suggestedFilename"].as_str().unwrap())
    }

    /// The addresses of all requests that the page made, that for itself too.
    pub fn requests(&self) -> Vec<String> {
        let requests = self.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        requests.map(|event| event["params"]["request"]["url"].as_str().unwrap().to_owned()).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser ends with its pipe.
        self.input = None;
        let _ = self.child.wait();
    }
}
