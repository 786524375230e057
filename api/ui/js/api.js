//! Requests to the API: the token, the past index, errors as values. Not here: the event stream (`stream.js`).

import { effect, kept, signal, untracked, useEffect, useSignal, useState } from './lib.js';

/** Secret of the token that requests carry; empty without one. */
export const token = kept('token', '');
/** Index of the past state that the page shows, or null for the present one. */
export const at = signal(/** @type {number | null} */ (null));

/** A refused or failed request. `status` is 0 if no answer came. */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {string} text
   */
  constructor(status, text) {
    super(text);
    this.status = status;
    /** Whether the token is the reason. The event stream refuses with 500 and these words, as Nomad does. */
    this.denied = status === 403 || text === 'Permission denied';
  }
}

/** @returns {Record<string, string>} */
export function headers() {
  return token.value === '' ? {} : { 'X-Nomad-Token': token.value };
}

/**
 * @param {string} path
 * @param {RequestInit} [options]
 */
export async function request(path, options = {}) {
  let response;
  try {
    // A browser holds back a request while its cache still waits for another answer of the same address: the event
    // stream of a page that was just left, or of another tab.
    response = await fetch(path, { cache: 'no-store', ...options, headers: { ...headers(), ...options.headers } });
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new ApiError(0, 'the server does not answer');
  }
  if (!response.ok) throw new ApiError(response.status, (await response.text()).trim() || response.statusText);
  return response;
}

/**
 * Reads a path at an index, or the present state.
 * @param {string} path
 * @param {number | null} index
 * @param {AbortSignal} [abort]
 * @returns {Promise<any>}
 */
export async function get(path, index = at.value, abort) {
  const url = index === null ? path : `${path}${path.includes('?') ? '&' : '?'}at_index=${index}`;
  return (await request(url, { signal: abort })).json();
}

/**
 * Writes. Refused here while the page shows a past state.
 * @param {string} method
 * @param {string} path
 * @param {unknown} [body]
 * @returns {Promise<any>}
 */
export async function write(method, path, body) {
  if (at.value !== null) throw new ApiError(0, 'the page shows the past: return to the present to change anything');
  const response = await request(path, { method, body: body === undefined ? undefined : JSON.stringify(body) });
  const text = await response.text();
  return text === '' ? null : JSON.parse(text);
}

/** A request that asks something with a body and changes nothing: a plan, the parsing of a job file.
 * @param {string} path
 * @param {unknown} body
 * @returns {Promise<any>}
 */
export async function ask(path, body) {
  return (await request(path, { method: 'POST', body: JSON.stringify(body) })).json();
}

/** @typedef {{data: any, error: ApiError | null, loading: boolean}} Got */

const NONE = signal(0);

/**
 * Answer of a path at the page's index. Read again when the path, the index, the token or `version`
 * changes: no polling.
 * The last answer stays on screen until the next one is there.
 * @param {string | null} path  null asks nothing
 * @param {{value: unknown}} [version]  changes when the answer may have changed
 * @param {boolean} [present]  ignores the past index: for what has no history
 * @returns {Got}
 */
export function useGet(path, version = NONE, present = false) {
  const [got, set] = useState(/** @type {Got & {path: string | null}} */ (
    { data: null, error: null, loading: true, path: null }));
  const now = useSignal(at);
  const secret = useSignal(token);
  useEffect(() => {
    if (path === null) return undefined;
    const abort = new AbortController();
    let timer = 0;
    let running = false;
    let again = false;
    const read = async () => {
      running = true;
      try {
        const data = await get(path, present ? null : now, abort.signal);
        set({ data, error: null, loading: false, path });
      } catch (error) {
        if (error instanceof ApiError) {
          const failed = error;
          set((/** @type {any} */ old) => ({
            data: failed.status === 0 && old.path === path ? old.data : null, error: failed, loading: false, path }));
        }
      }
      running = false;
      if (again && !abort.signal.aborted) timer = window.setTimeout(start, 200);
    };
    const start = () => {
      again = false;
      untracked(read);
    };
    const stop = effect(() => {
      version.value;
      if (running) again = true;
      else {
        window.clearTimeout(timer);
        timer = window.setTimeout(start, 0);
      }
    });
    return () => {
      stop();
      window.clearTimeout(timer);
      abort.abort();
    };
  }, [path, now, secret, version, present]);
  return got.path === path ? got : { data: null, error: null, loading: true };
}

/** A server ends a blocking query after this time at the latest, and answers with what there is. */
const FOLLOW_WAIT = '60s';
const FOLLOW_AGAIN_MS = 2_000;

/**
 * Answer of a list at the page's index. The present one is read again whenever it changes, by blocking queries: for rows
 * whose changes are no events.
 * @param {string} path  without a query
 * @returns {Got}
 */
export function useFollowed(path) {
  const [got, set] = useState(/** @type {Got} */ ({ data: null, error: null, loading: true }));
  const now = useSignal(at);
  const secret = useSignal(token);
  useEffect(() => {
    const abort = new AbortController();
    const follow = async () => {
      let index = 0;
      while (!abort.signal.aborted) {
        const query = now !== null ? `at_index=${now}` : index === 0 ? '' : `index=${index}&wait=${FOLLOW_WAIT}`;
        try {
          const response = await request(`${path}?${query}`, { signal: abort.signal });
          const data = await response.json();
          set({ data, error: null, loading: false });
          if (now !== null) return;
          const next = Number(response.headers.get('X-Nomad-Index'));
          // A restored state may have an older index than the one before.
          index = next < index ? 0 : next;
        } catch (error) {
          if (!(error instanceof ApiError)) return;
          const failed = error;
          set((/** @type {Got} */ old) => ({ data: failed.status === 0 ? old.data : null, error: failed, loading: false }));
          if (failed.denied) return;
          index = 0;
          await new Promise((done) => { window.setTimeout(done, FOLLOW_AGAIN_MS); });
        }
      }
    };
    void follow();
    return () => abort.abort();
  }, [path, now, secret]);
  return got;
}
