//! Audit: the commands of the log, newest first, with actor, cause and result.

import { at, get } from '../api.js';
import { html, useEffect, useSignal, useState } from '../lib.js';
import { Card, Failed, Head, Json, Status, Time } from '../parts/basics.js';
import { Entry } from '../parts/entry.js';
import { ToIndex } from '../parts/history.js';
import { Table } from '../parts/table.js';
import { newest } from '../store.js';
import { actorWords, counted } from '../words.js';

/** @typedef {Record<string, any>} Row */

const SHOWN_MAX = 1000;
/** Filter of entries that people wrote. */
const PEOPLE = 'Actor matches "^(token|anonymous)"';
/** Entries arrive with every event; the list is read again at most this often. */
const REST_MS = 500;

export function Audit() {
  const index = useSignal(at);
  const end = useSignal(newest);
  const [filter, setFilter] = useState('');
  const [typed, setTyped] = useState('');
  const [got, set] = useState(/** @type {{rows: Row[], error: any}} */ ({ rows: [], error: null }));
  const [chosen, choose] = useState(/** @type {Row | null} */ (null));
  useEffect(() => {
    const abort = new AbortController();
    const timer = window.setTimeout(() => {
      get(`/v1/audit?per_page=${SHOWN_MAX}${filter === '' ? ''
        : `&filter=${encodeURIComponent(filter)}`}`, index, abort.signal).then(
        (rows) => set({ rows, error: null }), (error) => { if (!abort.signal.aborted) set({ rows: [], error }); });
    }, got.rows.length === 0 ? 0 : REST_MS);
    return () => {
      window.clearTimeout(timer);
      abort.abort();
    };
  }, [filter, index, index === null ? end : 0]);
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    setFilter(typed);
  };
  return html`<${Head} title="Audit" /><form class="tools" onSubmit=${submit}><input class="grow mono"
    aria-label="Filter" value=${typed}
      placeholder="Refused == true" onInput=${(/** @type {any} */ e) => setTyped(e.target.value)} />
        <button type="submit">Filter</button>
      <button type="button" onClick=${() => { setTyped(PEOPLE); setFilter(PEOPLE); }}>People only</button>
      <span class="dim">${counted(got.rows.length, 'entry', 'entries')}</span></form><${Failed} error=${got.error} />
    <div class="grid"><section class=${`card ${chosen ? 'c7' : ''}`}><${Table} label="Audit" rows=${got.rows}
      id=${(/** @type {Row} */ row) => String(row.Index)}
      empty="No entry matches." columns=${[{ name: 'Index', show: (row) => html`<${ToIndex} index=${row.Index} />` },
        { name: 'Command', show: (row) => html`<button type="button" class="link"
          onClick=${() => choose(row)}>${row.Command}</button>` },
        { name: 'Actor', show: (row) => actorWords(row.Actor) },
        { name: 'Result', class: 'p2', show: (row) => (row.Refused ? html`<${Status}
          value="denied" /> ${row.Result}` : row.Result ?? '—') },
        { name: 'Because of', class: 'p3', show: (row) => (row.Cause ? html`<${ToIndex}
          index=${row.Cause.Index} /> ${row.Cause.Command}` : '') },
        { name: 'Time', class: 'num', show: (row) => html`<${Time} time=${row.Time} />` }]} /></section>
      ${chosen ? html`<div class="c5 detail"><${Card} title=${`${chosen.Command} at ${chosen.Index}`}
        aside=${html`<button type="button" onClick=${() => choose(null)}>Close</button>`}><div class="body">
          <${Json} value=${chosen} /></div><//><${Entry} index=${chosen.Index} /></div>` : null}</div>`;
}
