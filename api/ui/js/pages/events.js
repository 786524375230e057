//! Event explorer: a stream of its own from any retained entry on, with topic and filter, and one event as JSON.

import { ApiError, request } from '../api.js';
import { html, useEffect, useState } from '../lib.js';
import { Card, Failed, Head, Json } from '../parts/basics.js';
import { Entry } from '../parts/entry.js';
import { eventWords, pageOf } from '../parts/feed.js';
import { ToIndex } from '../parts/history.js';
import { Table } from '../parts/table.js';
import { Link } from '../router.js';
import { newest } from '../store.js';
import { lines } from '../stream.js';
import { counted } from '../words.js';

/** @typedef {Record<string, any>} Row */

/** Newest events that stay on the page. */
const KEPT_MAX = 5000;
/** Entries before the newest one at which the explorer begins. */
const BEGIN_BEFORE = 300;
/** Arrived events wait this long for others before they are shown. */
const GATHER_MS = 80;
const TOPICS = ['Job', 'Evaluation', 'Allocation', 'Deployment', 'Node', 'Service', 'NodePool', 'Namespace', 'Variable',
  'ACLToken',
  'ACLPolicy', 'CSIVolume', 'Quota'];

/** @typedef {{path: string, events: Row[], gap: number, error: ApiError | null}} Streamed */

/** @param {string} path @returns {Streamed} */
const nothingOf = (path) => ({ path, events: [], gap: 0, error: null });

/**
 * Newest first. An effect runs only after the page was painted, so rows carry the path they came from: those of another
 * topic or filter are never shown under the new one.
 * @param {string} path
 * @returns {Streamed}
 */
function useStream(path) {
  const [state, set] = useState(nothingOf(path));
  useEffect(() => {
    const abort = new AbortController();
    /** @type {Row[]} */
    let gathered = [];
    let timer = 0;
    const change = (/** @type {(of: Streamed) => Partial<Streamed>} */ to) =>
      set((/** @type {Streamed} */ old) => (old.path === path ? { ...old, ...to(old) } : old));
    const show = () => {
      timer = 0;
      const fresh = gathered.reverse();
      gathered = [];
      change((old) => ({ events: [...fresh, ...old.events].slice(0, KEPT_MAX) }));
    };
    const read = async () => {
      try {
        const response = await request(path, { signal: abort.signal });
        for await (const frame of lines(response, () => {})) {
          if (frame.Gap) change(() => ({ gap: frame.Gap.Oldest }));
          gathered.push(...(frame.Events ?? []).map((/** @type {Row} */ event, /** @type {number} */ i) =>
            ({ ...event, id: `${event.Index}/${i}` })));
          if (gathered.length > 0 && timer === 0) timer = window.setTimeout(show, GATHER_MS);
        }
      } catch (error) {
        if (error instanceof ApiError) change(() => ({ error }));
      }
    };
    set(nothingOf(path));
    void read();
    return () => {
      abort.abort();
      window.clearTimeout(timer);
    };
  }, [path]);
  return state.path === path ? state : nothingOf(path);
}

export function Events() {
  const [topic, setTopic] = useState('');
  const [filter, setFilter] = useState('');
  const [typed, setTyped] = useState('');
  const [begin, setBegin] = useState(Math.max(0, newest.value - BEGIN_BEFORE));
  const [chosen, choose] = useState(/** @type {Row | null} */ (null));
  const path = `/v1/event/stream?after_index=${begin}&full=true&namespace=*${topic === '' ? '' : `&topic=${topic}`}${
    filter === '' ? '' : `&filter=${encodeURIComponent(filter)}`}`;
  const { events, gap, error } = useStream(path);
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    setFilter(typed);
  };
  return html`<${Head} title="Events" /><form class="tools" onSubmit=${submit}>
      <select aria-label="Topic" value=${topic} onChange=${(/** @type {any} */ e) => setTopic(e.target.value)}>
        <option value="">All topics</option>
        ${TOPICS.map((name) => html`<option value=${name}>${name}</option>`)}</select>
      <input class="grow mono" aria-label="Filter" placeholder='Payload.Allocation.ClientStatus == failed'
        value=${typed}
        onInput=${(/** @type {any} */ e) => setTyped(e.target.value)} /><button type="submit">Filter</button>
      <label>after index <input type="number" min="0" value=${begin} onChange=${(/** @type {any} */ e) =>
        setBegin(Math.max(0, Number(e.target.value) || 0))} /></label>
      <button type="button" onClick=${() => setBegin(0)}>From the beginning</button>
      <span class="dim" role="status">${counted(events.length, 'event')}</span></form>
    <${Failed} error=${error} />${gap > 0 ? html`<div class="note warn">Entries before ${gap} are no longer kept.</div>`
      : null}
    <div class="grid"><section class=${`card ${chosen ? 'c7' : ''}`}><${Table} label="Events" rows=${events}
      id=${(/** @type {Row} */ e) => e.id} empty="No event matches yet."
      columns=${[{ name: 'Index', show: (e) => html`<${ToIndex} index=${e.Index} />` },
        { name: 'Type', show: (e) => html`<button type="button" class="link" onClick=${() =>
          choose(e)}>${e.Type}</button>` },
        { name: 'Object', class: 'wide', show: (e) => {
          const event = { topic: e.Topic, key: e.Key, namespace: e.Namespace, payload: e.Payload };
          const to = pageOf(event);
          return to === null ? eventWords(event) : html`<${Link} to=${to}>${eventWords(event)}<//>`;
        } },
        { name: 'Topic', show: (e) => e.Topic, class: 'p2' }, { name: 'Namespace', show: (e) =>
          e.Namespace || '—', class: 'p3' }]} /></section>
      ${chosen ? html`<div class="c5 detail"><${Card} title=${html`${chosen.Type} at ${chosen.Index}`}
        aside=${html`<button type="button" onClick=${() => choose(null)}>Close</button>`}><div class="body">
          <${Json} value=${chosen} /></div><//>
        <${Entry} index=${chosen.Index} /></div>` : null}</div>`;
}
