//! Differences of the cluster between two indexes: what came, went and changed.

import { html, useEffect, useState } from '../lib.js';
import { Card, Empty, Failed, Head } from '../parts/basics.js';
import { Fields, fieldsBetween } from '../parts/diff.js';
import { pageOf } from '../parts/feed.js';
import { Link, go } from '../router.js';
import { newest, tablesAt } from '../store.js';
import { counted, short } from '../words.js';

/** @typedef {Record<string, any>} Row */
/** Tables in the order of the page. */
const ORDER = ['Job', 'Deployment', 'Allocation', 'Node', 'Evaluation', 'Namespace', 'NodePool'];

/** @typedef {{topic: string, key: string, row: Row, kind: 'came' | 'went' | 'changed', fields: any[]}} Difference */

/** @param {Map<string, import('../store.js').Table>} before @param {Map<string, import('../store.js').Table>} after */
function differences(before, after) {
  /** @type {Difference[]} */
  const out = [];
  for (const topic of ORDER) {
    const old = before.get(topic)?.rows ?? new Map();
    const now = after.get(topic)?.rows ?? new Map();
    for (const [key, row] of now) {
      const was = old.get(key);
      if (was === undefined) out.push({ topic, key, row, kind: 'came', fields: [] });
      else if (was.ModifyIndex !== row.ModifyIndex || topic === 'Job') {
        const fields = fieldsBetween(was, row);
        if (fields.length > 0) out.push({ topic, key, row, kind: 'changed', fields });
      }
    }
    for (const [key, row] of old) if (!now.has(key)) out.push({ topic, key, row, kind: 'went', fields: [] });
  }
  return out;
}

/** @param {{query: URLSearchParams}} props */
export function Compare({ query }) {
  const to = Number(query.get('to')) || newest.value;
  const from = Number(query.get('from')) || Math.max(1, to - 20);
  const [ends, setEnds] = useState({ from, to });
  const [found, set] = useState(/** @type {{list: Difference[], error: any, loading: boolean}} */ ({ list: [],
    error: null, loading: true }));
  useEffect(() => setEnds({ from, to }), [from, to]);
  useEffect(() => {
    if (to === 0) return undefined;
    const abort = new AbortController();
    set({ list: [], error: null, loading: true });
    Promise.all([tablesAt(from, abort.signal), tablesAt(to, abort.signal)]).then(
      ([before, after]) => set({ list: differences(before, after), error: null, loading: false }),
      (error) => { if (!abort.signal.aborted) set({ list: [], error, loading: false }); });
    return () => abort.abort();
  }, [from, to]);
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    go(`/compare?from=${ends.from}&to=${ends.to}`);
  };
  const field = (/** @type {'from' | 'to'} */ name) => html`<label>${name} index <input type="number" min="1"
    value=${ends[name]}
    onInput=${(/** @type {any} */ e) => setEnds({ ...ends, [name]: Number(e.target.value) })} /></label>`;
  const topics = [...new Set(found.list.map(({ topic }) => topic))];
  return html`<${Head} title="Compare" /><form class="tools" onSubmit=${submit}>
    ${field('from')}${field('to')}<button type="submit" class="main">Compare</button>
      <span class="dim" role="status">${found.loading ? 'Reading both states…' : counted(found.list.length,
        'difference')}</span></form>
    <${Failed} error=${found.error} />
    ${!found.loading && found.list.length === 0 && !found.error
      ? html`<${Empty}>Nothing differs between these two entries.<//>` : null}
    ${topics.map((topic) => html`<${Card} key=${topic} title=${topic} aside=${html`<span class="dim">${
      counted(found.list.filter((one) => one.topic === topic).length, 'difference')}</span>`}><div class="body stack">
      ${found.list.filter((one) => one.topic === topic).slice(0, 200).map((one) => {
        const page = pageOf({ topic, key: one.row.ID ?? one.key, namespace: one.row.Namespace ?? '' });
        const name = `${one.row.Name || short(one.key)}${one.row.JobID && topic !== 'Allocation' ? ` of ${one.row.JobID}` : ''}`;
        return html`<div key=${one.key} class="diff"><span class=${one.kind === 'came' ? 'plus'
          : one.kind === 'went' ? 'minus' : 'edit'}>
          <b>${one.kind === 'came' ? '+' : one.kind === 'went' ? '−' : '~'}</b> ${one.kind}</span>
          ${' '}${page ? html`<${Link} to=${page}><strong>${name}</strong><//>` : html`<strong>${name}</strong>`}
          ${one.kind === 'changed' ? html`<${Fields} fields=${one.fields} />` : null}</div>`;
      })}</div><//>`)}`;
}
