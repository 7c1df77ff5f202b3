//! Cold storage classes for tests: a proxy in front of an object storage that has none.
//!
//! Whatever it is asked, the storage behind it does and checks, signatures included. The proxy keeps the class of each
//! object (from `x-amz-storage-class` of a `PUT`, or as a rule of the bucket would move it), answers a `GET` of what lies
//! in an archive with 403 `InvalidObjectState`, tells class and state with each answer, and brings back what is asked
//! for (`POST ?restore`) a moment later.

mod answers;
mod http;

use crate::s3::{Gateway, KEYS};
use answers::{AGAIN, refusal};
use http::{Answer, Request};
use std::collections::BTreeMap;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Classes from which objects have to be brought back.
const ARCHIVES: [&str; 2] = ["GLACIER", "DEEP_ARCHIVE"];
/// What every storage of this kind knows; anything else is refused.
const CLASSES: [&str; 6] =
    ["STANDARD", "STANDARD_IA", "ONEZONE_IA", "GLACIER_IR", "GLACIER", "DEEP_ARCHIVE"];

/// Such a proxy. It ends with the process.
pub struct ColdStorage {
    port: u16,
    state: Arc<Mutex<State>>,
}

/// An object that is not in the standard class.
#[derive(Clone, Debug)]
struct Object {
    class: String,
    /// When it is back; `None` while nobody has asked for it.
    back_at: Option<Instant>,
}

/// What the proxy knows.
struct State {
    /// By bucket and key.
    objects: BTreeMap<String, Object>,
    /// So long it takes to bring an object back.
    takes: Duration,
    /// Each request for that: bucket and key, and its body.
    asked: Vec<(String, String)>,
    /// Reads of objects that are not in the standard class: bucket and key.
    reads: Vec<String>,
    /// The next answers to a `PUT` of a class are lost.
    lost_answers: usize,
}

impl Object {
    fn is_archived(&self) -> bool {
        ARCHIVES.contains(&&*self.class)
    }

    fn is_back(&self) -> bool {
        self.back_at.is_some_and(|at| at <= Instant::now())
    }

    /// What an answer says of it.
    fn headers(&self) -> String {
        let class = format!("x-amz-storage-class: {}\r\n", self.class);
        let restore = match self.back_at {
            None => "",
            Some(_) if self.is_back() => {
                "x-amz-restore: ongoing-request=\"false\", expiry-date=\"Fri, 21 Dec 2040 00:00:00 GMT\"\r\n"
            }
            Some(_) => "x-amz-restore: ongoing-request=\"true\"\r\n",
        };
        class + restore
    }
}

impl ColdStorage {
    /// In front of `gateway`. To bring an object back takes so long.
    pub fn start(gateway: &Gateway, takes: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let behind = gateway.endpoint().trim_start_matches("http://").to_owned();
        let (objects, asked, reads) = Default::default();
        let state = State { objects, takes, asked, reads, lost_answers: 0 };
        let state = Arc::new(Mutex::new(state));
        let shared = state.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (behind, state) = (behind.clone(), shared.clone());
                std::thread::spawn(move || serve(client, &behind, &state));
            }
        });
        Self { port, state }
    }

    /// Its address.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The variables with which programs reach it.
    pub fn variables(&self) -> [(&'static str, String); 3] {
        [
            ("AWS_ACCESS_KEY_ID", KEYS[0].into()),
            ("AWS_SECRET_ACCESS_KEY", KEYS[1].into()),
            ("AWS_ENDPOINT_URL", self.endpoint()),
        ]
    }

    /// The classes of the objects whose bucket and key begin with `prefix`, without those in the standard class.
    pub fn classes(&self, prefix: &str) -> BTreeMap<String, String> {
        let state = self.state();
        let below = state.objects.iter().filter(|(key, _)| key.starts_with(prefix));
        below.map(|(key, object)| (key.clone(), object.class.clone())).collect()
    }

    /// As a rule of the bucket does it: the object `key` (with its bucket) lies in `class` from now on.
    pub fn moves(&self, key: &str, class: &str) {
        let object = Object { class: class.to_owned(), back_at: None };
        self.state().objects.insert(key.to_owned(), object);
    }

    /// The object `key` (with its bucket) was removed behind the proxy.
    pub fn loses(&self, key: &str) {
        self.state().objects.remove(key);
    }

    /// What was brought back goes: its days are over.
    pub fn expire(&self) {
        self.state().objects.values_mut().for_each(|object| object.back_at = None);
    }

    /// The requests until now that bring something back: bucket and key, and the body.
    pub fn asked(&self) -> Vec<(String, String)> {
        self.state().asked.clone()
    }

    /// Bucket and key of each read, also in vain, of an object that is not in the standard class.
    pub fn reads(&self) -> Vec<String> {
        self.state().reads.clone()
    }

    /// The answers to the next `count` requests that write into a class are lost: they are done, and answered with 503.
    pub fn lose_answers(&self, count: usize) {
        self.state().lost_answers = count;
    }

    /// So long it takes from now on to bring an object back.
    pub fn takes(&self, takes: Duration) {
        self.state().takes = takes;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

/// Answers requests of one connection, until its other end has gone.
fn serve(mut client: TcpStream, behind: &str, state: &Mutex<State>) {
    while let Ok(Some(request)) = Request::read(&mut client) {
        if answer(&request, behind, state).send(&mut client).is_err() {
            return;
        }
    }
}

fn answer(request: &Request, behind: &str, state: &Mutex<State>) -> Answer {
    let key = request.key();
    let known = state.lock().unwrap().objects.get(&key).cloned();
    match (request.method.as_str(), known) {
        ("POST", known) if request.has("restore") => restore(request, behind, state, known),
        ("GET", Some(object)) if request.is_of_content() => {
            state.lock().unwrap().reads.push(key);
            if object.is_archived() && !object.is_back() {
                return refusal(403, "InvalidObjectState", &object.class);
            }
            request.forward(behind).with(&object.headers())
        }
        ("HEAD", Some(object)) => request.forward(behind).with(&object.headers()),
        ("PUT", _) if request.is_of_content() => put(request, behind, state),
        ("DELETE", _) => {
            state.lock().unwrap().objects.remove(&key);
            request.forward(behind)
        }
        ("POST", _) if request.has("delete") => {
            let mut state = state.lock().unwrap();
            request.named().iter().for_each(|key| drop(state.objects.remove(key)));
            request.forward(behind)
        }
        _ => request.forward(behind),
    }
}

fn put(request: &Request, behind: &str, state: &Mutex<State>) -> Answer {
    let class = request.header("x-amz-storage-class").unwrap_or("STANDARD");
    if !CLASSES.contains(&class) {
        return refusal(400, "InvalidStorageClass", class);
    }
    let answer = request.forward(behind);
    if answer.status != 200 {
        return answer;
    }
    let mut state = state.lock().unwrap();
    state.objects.remove(&request.key());
    if class == "STANDARD" {
        return answer;
    }
    let object = Object { class: class.to_owned(), back_at: None };
    state.objects.insert(request.key(), object);
    if state.lost_answers == 0 {
        return answer;
    }
    state.lost_answers -= 1;
    refusal(503, "SlowDown", class)
}

/// The storage behind it has no archive; but it knows whether the request is signed by who may do that.
fn restore(request: &Request, behind: &str, state: &Mutex<State>, known: Option<Object>) -> Answer {
    let checked = request.forward(behind);
    if checked.status == 403 {
        return checked;
    }
    let Some(object) = known.filter(Object::is_archived) else {
        return refusal(403, "InvalidObjectState", "STANDARD");
    };
    let is_deep = object.class == "DEEP_ARCHIVE";
    if is_deep && request.text().contains("<Tier>Expedited</Tier>") {
        return refusal(400, "InvalidArgument", &object.class);
    }
    let mut state = state.lock().unwrap();
    state.asked.push((request.key(), request.text()));
    if object.is_back() {
        return Answer::empty(200);
    }
    if object.back_at.is_some() {
        return refusal(409, AGAIN, &object.class);
    }
    let back_at = Some(Instant::now() + state.takes);
    state.objects.insert(request.key(), Object { back_at, ..object });
    Answer::empty(202)
}
