// Keeping a page current: the socket only hints that there is something new, the page pulls what it lacks by cursor.
// So a lost message, a cut connection or a second tab loses no point. Times are never taken from this browser's clock.

const BEAT_MS = 5000; // the server must answer a ping within two beats
const POLL_MS = 2000; // while there is no socket
const SLOW_MS = 15000; // while there is one: hints may be lost
const HIDDEN_MS = 30000; // in a tab nobody looks at: only for its title
const LONGEST_BACK_OFF_MS = 15000;

/** Waiting time before the nth try: doubles, and is spread so that a thousand pages do not come back at once. */
export function backOff(tries, first = 500, most = LONGEST_BACK_OFF_MS, random = Math.random) {
  const full = Math.min(most, first * 2 ** tries);
  return full / 2 + (random() * full) / 2;
}

/**
 * Events of the feed, as calls: `onUpdate(answer)` for each answer of the server, in order; `onStatus(status)` with
 * "connecting", "live", "polling", "reconnecting", "ended", "signed-out" or "gone".
 */
export class Feed {
  constructor({ url, socketUrl, onUpdate, onStatus, fetch = window.fetch.bind(window), Socket = window.WebSocket }) {
    Object.assign(this, { url, socketUrl, onUpdate, onStatus, fetch, Socket });
    this.cursor = null;
    this.entry = 0; // the newest of the timeline's entries
    this.status = "connecting";
    this.stopped = false;
    this.pulling = null;
    this.wanted = false;
    this.failures = 0;
    this.socketTries = 0;
    this.beaten = 0;
  }

  start() {
    document.addEventListener("visibilitychange", () => this.seen());
    window.addEventListener("online", () => this.seen());
    // Join first, then pull: what happens in between is either hinted at or pulled.
    this.connect();
    return this.pull();
  }

  stop(status) {
    this.stopped = true;
    clearTimeout(this.timer);
    clearTimeout(this.retry);
    clearInterval(this.heart);
    this.socket?.close();
    this.say(status);
  }

  say(status) {
    if (this.status === status) return;
    this.status = status;
    this.onStatus(status);
  }

  // -- Pulling: one request at a time; a wish that comes meanwhile is remembered.

  pull() {
    if (this.stopped) return Promise.resolve();
    if (this.pulling) {
      this.wanted = true;
      return this.pulling;
    }
    clearTimeout(this.timer);
    this.pulling = this.pullAll().finally(() => {
      this.pulling = null;
      if (this.wanted) {
        this.wanted = false;
        this.pull();
      } else {
        this.schedule();
      }
    });
    return this.pulling;
  }

  async pullAll() {
    let more = true;
    while (more && !this.stopped) {
      const answer = await this.ask();
      if (answer === null) return;
      this.cursor = answer.cursor;
      this.entry = answer.timeline[answer.timeline.length - 1]?.id ?? this.entry;
      more = answer.more;
      this.onUpdate(answer);
      if (answer.job.terminal && !more) this.stop("ended");
    }
  }

  async ask() {
    const known = `?after=${encodeURIComponent(this.cursor)}&timeline=${this.entry}`;
    const address = this.cursor === null ? this.url : this.url + known;
    const given = new AbortController();
    const timeout = setTimeout(() => given.abort(), 20000);
    try {
      const answer = await this.fetch(address, {
        headers: { Accept: "application/json" }, redirect: "manual", credentials: "same-origin", signal: given.signal,
      });
      if (answer.type === "opaqueredirect" || answer.status === 401) {
        this.stop("signed-out");
        return null;
      }
      if (answer.status >= 400 && answer.status < 500 && answer.status !== 429 && answer.status !== 408) {
        this.stop("gone");
        return null;
      }
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const body = await answer.json();
      this.failures = 0;
      this.say(this.socketOpen ? "live" : "polling");
      return body;
    } catch {
      this.failures += 1;
      this.say("reconnecting");
      return null;
    } finally {
      clearTimeout(timeout);
    }
  }

  schedule() {
    if (this.stopped) return;
    let wait = this.socketOpen ? SLOW_MS : POLL_MS;
    if (this.failures) wait = backOff(this.failures);
    if (document.hidden) wait = HIDDEN_MS;
    this.timer = setTimeout(() => this.pull(), wait * (0.9 + Math.random() * 0.2));
  }

  /** The page is looked at again, or the network is back: catch up at once. */
  seen() {
    if (this.stopped || document.hidden) return;
    if (!this.socketOpen && !this.socket) this.connect();
    this.pull();
  }

  // -- The socket

  get socketOpen() {
    return this.socket?.readyState === 1 && this.joined;
  }

  connect() {
    if (this.stopped) return;
    clearTimeout(this.retry);
    this.joined = false;
    let socket;
    try {
      socket = new this.Socket(this.socketUrl);
    } catch {
      this.again();
      return;
    }
    this.socket = socket;
    socket.onmessage = (message) => {
      if (socket === this.socket) this.hear(JSON.parse(message.data));
    };
    socket.onclose = () => {
      if (socket !== this.socket) return;
      this.socket = null;
      this.joined = false;
      clearInterval(this.heart);
      if (this.stopped) return;
      // Also when the server refused us (4404): the next pull tells whether the job or the session is gone.
      this.say(this.failures ? "reconnecting" : "polling");
      this.again();
      this.pull();
    };
    this.beaten = 0;
    clearInterval(this.heart);
    this.heart = setInterval(() => this.beat(socket), BEAT_MS);
  }

  again() {
    this.retry = setTimeout(() => this.connect(), backOff(this.socketTries));
    this.socketTries += 1;
  }

  hear(message) {
    this.beaten = 0;
    if (message.type === "joined") {
      this.joined = true;
      this.socketTries = 0;
      this.say("live");
      this.pull();
    } else if (message.type === "hint" && !document.hidden && message.cursor !== this.cursor) {
      this.pull();
    }
  }

  /** An open socket may be dead for minutes before the browser says so. */
  beat(socket) {
    if (socket !== this.socket) return;
    if (this.beaten >= 2) {
      const dead = socket;
      this.socket = null;
      this.joined = false;
      clearInterval(this.heart);
      dead.onclose = null;
      dead.close();
      this.say("reconnecting");
      this.again();
      this.pull();
      return;
    }
    this.beaten += 1;
    if (socket.readyState === 1) socket.send('{"type":"ping"}');
  }
}
