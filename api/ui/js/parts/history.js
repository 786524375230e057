//! Changes of one object, newest first, each with its actor and cause, and a way to look at the state after it.

import { at, useGet } from '../api.js';
import { html, useMemo } from '../lib.js';
import { versionOf } from '../store.js';
import { actorWords } from '../words.js';
import { Card, Empty, Failed, Time } from './basics.js';
import { Fields } from './diff.js';

/** @typedef {Record<string, any>} Row */

/** Link to the state after an entry. @param {{index: number}} props */
export function ToIndex({ index }) {
  return html`<button type="button" class="link mono" title="Show the cluster after this entry"
    onClick=${() => { at.value = index; }}>#${index}</button>`;
}

/** @param {{kind: string, id: string, namespace?: string, topic: string}} props */
export function History({ kind, id, namespace = '*', topic }) {
  const path = `/v1/history/${kind}/${encodeURIComponent(id)}?namespace=${encodeURIComponent(namespace)}&per_page=200`;
  const got = useGet(path, useMemo(() => versionOf(topic), [topic]));
  const rows = /** @type {Row[]} */ (got.data ?? []);
  // An object that was never written, such as a built-in pool, has no history.
  const error = got.error?.status === 404 ? null : got.error;
  return html`<${Failed} error=${error} /><${Card} title="History">
    ${rows.length === 0 ? html`<${Empty}>${got.loading ? 'Reading…' : 'No change is kept.'}<//>` : null}
    <ol class="chain">${rows.map((row) => html`<li key=${row.Index} class=${kind}><div class="line">
      <strong>${row.Command || 'a change'}</strong>
      ${' '}by ${actorWords(row.Actor ?? '')}${row.Change === 'updated' ? '' : ` (${row.Change})`}</div>
      <div class="meta"><${ToIndex} index=${row.Index} /><${Time} time=${row.Time} />
        ${row.Cause ? html`<span>because of <${ToIndex} index=${row.Cause.Index} /> ${row.Cause.Command}</span>`
          : null}</div>
      ${row.Change === 'updated' ? html`<${Fields} fields=${row.Diff} />` : null}</li>`)}</ol><//>`;
}
