//! Paths of the page, in the browser's history, and the parameters of the query that belong to the page: `at` and `ns`.

import { at } from './api.js';
import { effect, html, signal } from './lib.js';

const ROOT = '/ui';

/** @typedef {{parts: string[], query: URLSearchParams}} Route */

/** @returns {Route} */
function read() {
  const path = location.pathname.startsWith(ROOT) ? location.pathname.slice(ROOT.length) : '';
  const parts = path.split('/').filter((part) => part !== '').map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  return { parts, query: new URLSearchParams(location.search) };
}

/** Page that is shown. */
export const route = signal(read());

/** @param {string} path  below the root, with its query */
export function go(path) {
  history.pushState(null, '', address(path));
  arrive();
  document.querySelector('main')?.focus();
}

/** @param {string} path */
function address(path) {
  const url = new URL(ROOT + path, location.origin);
  if (at.value !== null) url.searchParams.set('at', String(at.value));
  return url.pathname + url.search;
}

function arrive() {
  route.value = read();
  const index = Number(route.value.query.get('at'));
  at.value = Number.isSafeInteger(index) && index > 0 ? index : null;
}

/** Follows the browser's history; keeps the past index in the address, so that a link shows the same state. */
export function start() {
  window.addEventListener('popstate', arrive);
  arrive();
  effect(() => {
    const url = new URL(location.href);
    if (at.value === null) url.searchParams.delete('at');
    else url.searchParams.set('at', String(at.value));
    if (url.href !== location.href) history.replaceState(null, '', url);
  });
}

/** @param {{key: string, metaKey: boolean, ctrlKey: boolean, shiftKey: boolean, button?: number}} event */
const plain = (event) => !event.metaKey && !event.ctrlKey && !event.shiftKey && (event.button ?? 0) === 0;

/**
 * Link to a page.
 * @param {{to: string, children?: unknown, [name: string]: unknown}} props
 */
export function Link({ to, children, ...rest }) {
  const click = (/** @type {any} */ event) => {
    if (!plain(event)) return;
    event.preventDefault();
    go(to);
  };
  return html`<a href=${ROOT + to} onClick=${click} ...${rest}>${children}</a>`;
}

const part = encodeURIComponent;
/** Paths of objects, the same as those of Nomad's page where it has them. */
export const paths = {
  /** @param {Record<string, any>} job @param {string} [tab] */
  job: (job, tab = '') => `/jobs/${part(`${job.ID}@${job.Namespace}`)}${tab === '' ? '' : `/${tab}`}`,
  /** @param {string} id @param {string} [tab] */
  alloc: (id, tab = '') => `/allocations/${part(id)}${tab === '' ? '' : `/${tab}`}`,
  /** @param {string} id */
  node: (id) => `/clients/${part(id)}`,
  /** @param {string} id */
  evaluation: (id) => `/evaluations/${part(id)}`,
  /** @param {string} id */
  deployment: (id) => `/deployments/${part(id)}`,
};
