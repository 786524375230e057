//! The event stream: rows first, then changes; continues after its last index when the connection was lost. Not here:
//! what the events mean (`store.js`).

import { ApiError, request } from './api.js';

/** Heartbeats come every 30 seconds: a stream that is silent for longer is dead. */
const SILENCE_MAX_MS = 45_000;
const RETRY_FIRST_MS = 250;
const RETRY_MAX_MS = 5_000;

/** Topics that a token without management rights may usually read. */
const PLAIN_TOPICS = ['Job', 'Evaluation', 'Allocation', 'Deployment', 'Service', 'Node'];

/**
 * Subscriptions from the widest to the narrowest: a token gets the first that it may have.
 * @param {string} namespace
 */
function subscriptions(namespace) {
  const of = (/** @type {string[]} */ topics, /** @type {string} */ name) =>
    `full=true&namespace=${encodeURIComponent(name)}${topics.map((topic) => `&topic=${topic}`).join('')}`;
  const noNodes = PLAIN_TOPICS.filter((topic) => topic !== 'Node');
  return [
    of([], '*'), of(PLAIN_TOPICS, '*'), of(noNodes, '*'), of(PLAIN_TOPICS, namespace), of(noNodes, namespace),
    of(['Node'], namespace),
  ];
}

/**
 * JSON lines of a response, with a signal of life for each piece.
 * @param {Response} response
 * @param {() => void} alive
 */
export async function* lines(response, alive) {
  if (response.body === null) return;
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    alive();
    const parts = (rest + decoder.decode(value, { stream: true })).split('\n');
    rest = parts.pop() ?? '';
    for (const line of parts) if (line.trim() !== '') yield JSON.parse(line);
  }
}

/** @typedef {'connecting' | 'loading' | 'live' | 'catching up' | 'disconnected' | 'denied'} Connection */

/**
 * @typedef {object} Listener
 * @property {() => void} reset            rows of a new snapshot follow
 * @property {(frame: any) => void} frame  one frame with events
 * @property {(state: Connection, why: string) => void} state
 * @property {(index: number) => void} index
 */

/** Follows the event stream until it is stopped. */
export class Follower {
  /**
   * @param {Listener} listener
   * @param {string} namespace
   */
  constructor(listener, namespace) {
    this.listener = listener;
    this.subscriptions = subscriptions(namespace);
    this.chosen = 0;
    /** Last index of which every event was seen; null before the first snapshot is complete. */
    this.cursor = /** @type {number | null} */ (null);
    this.stopped = false;
    this.abort = new AbortController();
    this.wake = () => {};
    void this.run();
  }

  stop() {
    this.stopped = true;
    this.abort.abort();
    this.wake();
  }

  /** Tries again at once: the browser says that the network is back. */
  retry() {
    this.wake();
  }

  async run() {
    let wait = RETRY_FIRST_MS;
    while (!this.stopped) {
      let why = 'the stream ended';
      try {
        await this.follow(() => { wait = RETRY_FIRST_MS; });
      } catch (error) {
        why = error instanceof Error ? error.message : String(error);
        if (error instanceof ApiError && error.denied) {
          if (this.chosen + 1 < this.subscriptions.length) {
            this.chosen += 1;
            continue;
          }
          this.listener.state('denied', why);
          return;
        }
      }
      if (this.stopped) return;
      this.listener.state('disconnected', why);
      await new Promise((done) => {
        const timer = setTimeout(done, wait);
        this.wake = () => {
          clearTimeout(timer);
          done(undefined);
        };
      });
      wait = Math.min(wait * 2, RETRY_MAX_MS);
    }
  }

  /**
   * One connection. Ends or throws when it is lost.
   * @param {() => void} connected
   */
  async follow(connected) {
    this.abort = new AbortController();
    if (this.cursor !== null && await this.isNewCluster()) this.cursor = null;
    const begin = this.cursor === null ? 'snapshot=true' : `after_index=${this.cursor}`;
    let dog = 0;
    const alive = () => {
      clearTimeout(dog);
      dog = window.setTimeout(() => this.abort.abort(), SILENCE_MAX_MS);
    };
    alive();
    try {
      this.listener.state(this.cursor === null ? 'loading' : 'catching up', '');
      const path = `/v1/event/stream?${begin}&${this.subscriptions[this.chosen]}`;
      const response = await request(path, { signal: this.abort.signal });
      if (this.cursor === null) this.listener.reset();
      connected();
      for await (const frame of lines(response, alive)) if (!this.take(frame)) return;
    } finally {
      clearTimeout(dog);
    }
  }

  /** Whether the server has not yet written what this page has seen: it has another log, or is far behind. */
  async isNewCluster() {
    try {
      await request(`/v1/jobs?per_page=1&stale&at_index=${this.cursor}`, { signal: this.abort.signal });
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return true;
      if (error instanceof ApiError && error.status === 0) throw error;
    }
    return false;
  }

  /**
   * Takes one frame. False ends the connection.
   * @param {any} frame
   */
  take(frame) {
    if (frame.Gap !== undefined) {
      this.cursor = null;
      return false;
    }
    if (frame.Closed !== undefined) {
      if (frame.Index === 0) this.cursor = null;
      return false;
    }
    if (frame.Events !== undefined) {
      this.listener.frame(frame);
      // The index of a snapshot is a cursor only after its last frame.
      if (this.cursor !== null) this.cursor = frame.Index;
    } else if (frame.Index !== undefined) {
      this.cursor = frame.Index;
    }
    if (this.cursor !== null) this.listener.index(this.cursor);
    if (frame.CaughtUp) this.listener.state('live', '');
    if (frame.FellBehind) this.listener.state('catching up', 'this page was slower than the cluster');
    return true;
  }
}
