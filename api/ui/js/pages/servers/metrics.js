//! Metrics of the asked server, read when that is asked for.

import { useGet } from '../../api.js';
import { html, signal, useMemo, useState } from '../../lib.js';
import { Card, Failed } from '../../parts/basics.js';
import { Table } from '../../parts/table.js';

/** @typedef {Record<string, any>} Row */

const SHOWN_MAX = 2000;

/** @param {Row} labels */
const words = (labels) => Object.entries(labels ?? {}).map(([name, value]) => `${name}=${value}`).join(' ');
/** @param {number} value */
const number = (value) => (Number.isInteger(value) ? value.toLocaleString('en') : value.toPrecision(4));

export function Metrics() {
  const again = useMemo(() => signal(0), []);
  const [text, setText] = useState('nomad.raft');
  const got = useGet('/v1/metrics', again, true);
  const of = (/** @type {string} */ kind, /** @type {(row: Row) => string} */ value) =>
    (got.data?.[kind] ?? []).map((/** @type {Row} */ row, /** @type {number} */ i) => ({ key: `${kind}${i}`,
      kind: kind.toLowerCase().slice(0, -1), name: row.Name, labels: words(row.Labels), value: value(row) }));
  const all = [...of('Gauges', (row) => number(row.Value)), ...of('Counters', (row) => `${number(row.Count)} times`),
    ...of('Samples', (row) => `${number(row.Mean)} mean, ${number(row.Max)} max, ${number(row.Count)} times`)];
  const rows = all.filter((row) => row.name.includes(text) || row.labels.includes(text)).slice(0, SHOWN_MAX);
  return html`<${Card} title="Metrics" aside=${html`<span class="dim">${got.data?.Timestamp}</span>
      <button type="button" onClick=${() => { again.value += 1; }}>Read again</button>`}>
    <${Failed} error=${got.error} /><div class="body"><input type="search" aria-label="Filter metrics" class="grow"
      placeholder="Part of a name or label" value=${text}
        onInput=${(/** @type {any} */ e) => setText(e.target.value)} /></div>
    <${Table} label="Metrics" rows=${rows} id=${(/** @type {Row} */ row) => row.key}
      empty="No metric has this in its name."
      columns=${[{ name: 'Name', by: (/** @type {Row} */ row) => row.name, show: (/** @type {Row} */ row) =>
        html`<span class="mono">${row.name}</span>` },
      { name: 'Kind', by: (/** @type {Row} */ row) => row.kind, show: (/** @type {Row} */ row) => row.kind, class: 'p2' },
      { name: 'Labels', show: (/** @type {Row} */ row) => html`<span
        class="dim clip">${row.labels}</span>`, class: 'p3' },
      { name: 'Value', class: 'num', show: (/** @type {Row} */ row) => row.value }]} /><//>`;
}
