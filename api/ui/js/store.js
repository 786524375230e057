//! The rows that pages show: the present ones, fed by the event stream, and those of a past index, read once. Pages do
//! not see which of the two they have.

import { ApiError, at, get, token } from './api.js';
import { batch, computed, effect, kept, signal, untracked, useSignal } from './lib.js';
import { Follower } from './stream.js';

/** @typedef {Record<string, any>} Row */
/** @typedef {{rows: Map<string, Row>, version: {value: number}}} Table */
/**
 * @typedef {{index: number, type: string, topic: string, key: string, namespace: string, seen: number,
 *   payload: any}} Seen
 */

/** Newest events that the page keeps for its feed. */
const FEED_MAX = 500;
/** Pages render at most this often while events arrive, .. */
const RENDER_MS = 60;
/** .. and while the rows of a snapshot do, .. */
const RENDER_LOADING_MS = 700;
/** .. and rest this many times as long as the last rendering took, so that scrolling stays fluid in a large cluster. */
const RENDER_REST = 4;
const RENDER_MAX_MS = 1000;

/** State of the connection to the event stream. */
export const connection = signal(
  /** @type {{state: import('./stream.js').Connection, why: string}} */ ({ state: 'connecting', why: '' }));
/** Index up to which every event was seen. */
export const newest = signal(0);
/** Namespace of lists; `*` is all. */
export const namespace = kept('namespace', '*');
/** Newest events first. */
export const feed = signal(/** @type {Seen[]} */ ([]));
/** Events of each of the last 60 seconds, the current one last. */
export const rate = signal(/** @type {number[]} */ (new Array(60).fill(0)));

/** @returns {Map<string, Table>} */
const empty = () => new Map();
const live = empty();
let past = empty();
/** Progress of reading a past state: the index that is on screen, or an error. */
export const pastState = signal(
  /** @type {{index: number | null, loading: boolean, error: string}} */ ({ index: null, loading: false, error: '' }));
const dataset = signal(0);

/**
 * @param {Map<string, Table>} of
 * @param {string} topic
 * @returns {Table}
 */
function table(of, topic) {
  let found = of.get(topic);
  if (found === undefined) {
    found = { rows: new Map(), version: signal(0) };
    of.set(topic, found);
  }
  return found;
}

/** @param {string} topic @param {string} key @param {string} space */
const keyOf = (topic, key, space) => (topic === 'Job' ? `${space}/${key}` : key);

/** @type {Set<string>} */
const touched = new Set();
/** @type {Seen[]} */
let arrived = [];
let scheduled = 0;
/** How long the last rendering took, and when it began. */
let renderMs = 0;
let renderedAt = 0;

function publish() {
  scheduled = 0;
  const began = performance.now();
  renderedAt = began;
  batch(() => {
    for (const topic of touched) table(live, topic).version.value += 1;
    if (arrived.length > 0) feed.value = [...arrived.reverse(), ...feed.value].slice(0, FEED_MAX);
  });
  touched.clear();
  arrived = [];
  // Components render in microtasks, before this timer.
  window.setTimeout(() => { renderMs = performance.now() - began; });
}

function schedule() {
  if (scheduled !== 0) return;
  const least = connection.peek().state === 'loading' ? RENDER_LOADING_MS : RENDER_MS;
  const rest = Math.max(least, Math.min(RENDER_REST * renderMs, RENDER_MAX_MS));
  // A change after a pause is shown at once; the next ones wait for each other.
  scheduled = window.setTimeout(publish, Math.max(0, renderedAt + rest - performance.now()));
}

let ofThisSecond = 0;
let ticking = 0;
/** Counts events by second; runs only while there is something to show. */
function tick() {
  rate.value = [...rate.value.slice(1), ofThisSecond];
  ofThisSecond = 0;
  if (rate.value.every((count) => count === 0)) {
    window.clearInterval(ticking);
    ticking = 0;
  }
}

/** @param {any} frame */
function take(frame) {
  for (const event of frame.Events) {
    const payload = event.Payload ?? {};
    const row = Object.entries(payload).find(([name]) => name !== 'Deleted')?.[1];
    const rows = table(live, event.Topic).rows;
    const key = keyOf(event.Topic, event.Key, event.Namespace);
    const gone = payload.Deleted === true || event.Type.endsWith('Deleted') || event.Type === 'ServiceDeregistration';
    if (gone) rows.delete(key);
    else if (row !== undefined) rows.set(key, row);
    touched.add(event.Topic);
    if (event.Type !== 'Snapshot') {
      ofThisSecond += 1;
      arrived.push({
        index: event.Index, type: event.Type, topic: event.Topic, key: event.Key, namespace: event.Namespace,
        seen: Date.now(), payload,
      });
    }
  }
  if (ofThisSecond > 0 && ticking === 0) ticking = window.setInterval(tick, 1000);
  if (arrived.length > FEED_MAX) arrived = arrived.slice(-FEED_MAX);
  schedule();
}

/** @type {Follower | null} */
let follower = null;

/** Follows the cluster, from now on with the present token. */
export function follow() {
  follower?.stop();
  follower = new Follower({
    reset() {
      for (const [topic, { rows }] of live) {
        rows.clear();
        touched.add(topic);
      }
      schedule();
    },
    frame: take,
    state(state, why) {
      const loaded = connection.peek().state === 'loading' && state === 'live';
      connection.value = { state, why };
      if (!loaded) return;
      window.clearTimeout(scheduled);
      publish();
    },
    index(index) {
      newest.value = index;
    },
  }, untracked(() => (namespace.value === '*' ? 'default' : namespace.value)));
}

/** Begins to follow, and again with every other token. */
export function start() {
  window.addEventListener('online', () => follower?.retry());
  effect(() => {
    token.value;
    untracked(follow);
  });
}

/** Lists of which a past state is made: topic, path, and how a row is found. */
const LISTS = /** @type {[string, string, (row: Row) => string][]} */ ([
  ['Job', '/v1/jobs?namespace=*&meta=true', (row) => `${row.Namespace}/${row.ID}`],
  ['Node', '/v1/nodes?resources=true', (row) => row.ID],
  ['Allocation', '/v1/allocations?namespace=*&resources=true&task_states=true', (row) => row.ID],
  ['Evaluation', '/v1/evaluations?namespace=*', (row) => row.ID],
  ['Deployment', '/v1/deployments?namespace=*', (row) => row.ID],
  ['Namespace', '/v1/namespaces', (row) => row.Name],
  ['NodePool', '/v1/node/pools', (row) => row.Name],
]);

/**
 * The rows at an index. A list that the token may not read is empty.
 * @param {number} index
 * @param {AbortSignal} abort
 */
export async function tablesAt(index, abort) {
  const of = empty();
  await Promise.all(LISTS.map(async ([topic, path, key]) => {
    try {
      for (const row of await get(path, index, abort)) table(of, topic).rows.set(key(row), row);
    } catch (error) {
      if (!(error instanceof ApiError) || !error.denied) throw error;
    }
  }));
  return of;
}

let reading = new AbortController();
effect(() => {
  const index = at.value;
  reading.abort();
  reading = new AbortController();
  const { signal: abort } = reading;
  if (index === null) {
    past = empty();
    pastState.value = { index: null, loading: false, error: '' };
    dataset.value = untracked(() => dataset.value) + 1;
    return;
  }
  pastState.value = { index: untracked(() => pastState.value.index), loading: true, error: '' };
  untracked(() => tablesAt(index, abort)).then((of) => {
    if (abort.aborted) return;
    past = of;
    batch(() => {
      pastState.value = { index, loading: false, error: '' };
      dataset.value += 1;
    });
  }, (error) => {
    if (!abort.aborted) pastState.value = { index: pastState.value.index, loading: false,
      error: String(error.message) };
  });
});

/** Whether the tables on screen are those of the past. */
const inPast = computed(() => pastState.value.index !== null);

/**
 * Rows of a table, present or past.
 * @param {string} topic
 * @returns {Map<string, Row>}
 */
export function useRows(topic) {
  useSignal(dataset);
  const isPast = useSignal(inPast);
  const found = table(isPast ? past : live, topic);
  useSignal(found.version);
  return found.rows;
}

/**
 * Changes whenever a row of one of the topics does.
 * @param {...string} topics
 */
export function versionOf(...topics) {
  const key = topics.join();
  let found = versions.get(key);
  if (found === undefined) {
    found = computed(() => topics.reduce((sum, topic) => sum + table(live, topic).version.value, 0));
    versions.set(key, found);
  }
  return found;
}
/** @type {Map<string, {value: number}>} */
const versions = new Map();

/**
 * What was computed of tables, until one of their rows changes.
 * @type {Map<Function, {rows: Map<string, Row>, version: number, value: any}>}
 */
const computedOf = new Map();

/**
 * A value computed of a table's rows, once for all components and as long as no row changes.
 * @template T
 * @param {string} topic
 * @param {(rows: Map<string, Row>) => T} make  a function of a module, which is the key
 * @returns {T}
 */
export function useComputed(topic, make) {
  const rows = useRows(topic);
  const version = table(inPast.peek() ? past : live, topic).version.value;
  const old = computedOf.get(make);
  if (old !== undefined && old.rows === rows && old.version === version) return old.value;
  const value = make(rows);
  computedOf.set(make, { rows, version, value });
  return value;
}

/** Lists of tables by namespace, until a row changes.
 * @type {WeakMap<Map<string, Row>, {version: number, chosen: string, list: Row[]}>}
 */
const lists = new WeakMap();

/**
 * Rows of a table in the chosen namespace. The same list until a row changes.
 * @param {string} topic
 * @returns {Row[]}
 */
export function useList(topic) {
  const rows = useRows(topic);
  const chosen = useSignal(namespace);
  const version = table(inPast.peek() ? past : live, topic).version.value;
  const old = lists.get(rows);
  if (old !== undefined && old.version === version && old.chosen === chosen) return old.list;
  const all = [...rows.values()];
  const list = chosen === '*' ? all : all.filter((row) => row.Namespace === chosen);
  lists.set(rows, { version, chosen, list });
  return list;
}
