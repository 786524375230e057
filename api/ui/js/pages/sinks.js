//! Event sinks: the list with the progress of each, and the page of one of them. Its form is in `sinks/editor.js`.

import { useFollowed, write } from '../api.js';
import { html, useSignal, useState } from '../lib.js';
import { Action, Card, Failed, Head, Pairs, Status, Time } from '../parts/basics.js';
import { Text } from '../parts/form.js';
import { Table } from '../parts/table.js';
import { Link, go } from '../router.js';
import { newest } from '../store.js';
import { counted } from '../words.js';
import { Editor, pathOf } from './sinks/editor.js';

/** @typedef {Record<string, any>} Row */

const to = (/** @type {Row} */ row) => `/sinks/of/${encodeURIComponent(row.ID)}`;

/** Entries that a sink is behind. Its row does not change while a failed delivery is tried again.
 * @param {Row} row @param {number} index  the newest one */
const lag = (row, index) => (row.Status === 'failing' ? Math.max(row.Lag, index - row.Position) : row.Lag);

/** @param {{sinks: import('../api.js').Got}} props */
function List({ sinks }) {
  const index = useSignal(newest);
  return html`<${Head} title="Event sinks" aside=${html`<${Link} class="button" to="/sinks/new">New event sink<//>`} />
    <${Card} title="Event sinks"><${Failed} error=${sinks.error} /><${Table} label="Event sinks" rows=${sinks.data ?? []}
      sort="Name" id=${(/** @type {Row} */ row) => row.ID} to=${to} empty="No event sink is registered." columns=${[
        { name: 'Name', by: (row) => row.ID, show: (row) => html`<${Link} to=${to(row)}><strong>${row.ID}</strong><//>` },
        { name: 'State', by: (row) => row.Status, show: (row) => html`<${Status} value=${row.Status} />` },
        { name: 'Type', by: (row) => row.Type, show: (row) => row.Type },
        { name: 'Address', show: (row) => html`<span class="mono">${row.Address}</span>`, class: 'p2' },
        { name: 'Position', by: (row) => row.Position, show: (row) => `#${row.Position}`, class: 'num' },
        { name: 'Lag', by: (row) => lag(row, index), show: (row) => lag(row, index).toLocaleString('en'), class: 'num' },
        { name: 'Delivered', by: (row) => row.Delivered, show: (row) => row.Delivered.toLocaleString('en'), class: 'num p2' },
        { name: 'Last error', show: (row) => row.LastError, class: 'wide p3' }]} /><//>`;
}

/** @param {{row: Row}} props */
function Progress({ row }) {
  const index = useSignal(newest);
  return html`<${Card} title="Deliveries"><${Pairs} pairs=${[['Position', `#${row.Position}`],
    ['Lag', counted(lag(row, index), 'entry', 'entries')], ['Delivered', counted(row.Delivered, 'event')],
    ['Gaps', row.Gaps], ['Last error', row.LastError],
    ['Time of the error', row.LastErrorTime ? html`<${Time} time=${row.LastErrorTime} />` : '']]} /><//>`;
}

/** Sets the position back or forward. @param {{row: Row}} props */
function Position({ row }) {
  const [typed, setTyped] = useState('');
  const position = Number(typed);
  const isIndex = typed !== '' && Number.isSafeInteger(position) && position >= 0;
  const words = position < row.Position ? `Deliver again what came after #${typed}` : `Leave out what came before #${typed}`;
  return html`<${Card} title="Set the position"><div class="body form">
    <${Text} label="Index" type="number" min="0" value=${typed} set=${setTyped}
      hint="The next event that is delivered is the first one after this index." />
    <div><${Action} disabled=${!isIndex} confirm=${words} done=${() => setTyped('')}
      run=${() => write('PUT', `${pathOf(row.ID)}/reset`, { Position: position })}>Set<//></div></div><//>`;
}

/** @param {{name: string, sinks: import('../api.js').Got}} props */
function Sink({ name, sinks }) {
  const row = (sinks.data ?? []).find((/** @type {Row} */ one) => one.ID === name);
  const over = html`<${Link} to="/sinks">Event sinks<//>`;
  if (row === undefined) {
    return html`<${Head} title=${name} over=${over} /><${Failed} error=${sinks.error} />
      ${sinks.data === null ? null : html`<div class="note" role="status">There is no event sink of this name.</div>`}`;
  }
  return html`<${Editor} sink=${row} over=${over} status=${html`<${Status} value=${row.Status} />`}
      remove=${html`<${Action} confirm="Delete the event sink" run=${() => write('DELETE', pathOf(name))}
        done=${() => go('/sinks')}>Delete<//>`}>
    <${Failed} error=${sinks.error} /><div class="grid"><div class="c6"><${Progress} row=${row} /></div>
      <div class="c6"><${Position} row=${row} /></div></div><//>`;
}

/** @param {{parts: string[]}} props */
export function Sinks({ parts }) {
  const [kind, name] = parts;
  const sinks = useFollowed('/v1/event-sinks');
  if (kind === 'new') return html`<${Editor} sink=${null} over=${html`<${Link} to="/sinks">Event sinks<//>`} />`;
  if (kind === 'of' && name !== undefined) return html`<${Sink} key=${name} name=${name} sinks=${sinks} />`;
  return html`<${List} sinks=${sinks} />`;
}
