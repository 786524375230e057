//! Evaluations: the list, and one with its placement failures in sentences and its plan's allocations.

import { useGet } from '../api.js';
import { html, useMemo, useState } from '../lib.js';
import { Card, Failed, Head, Pairs, Status, Time } from '../parts/basics.js';
import { alloc, evaluation } from '../parts/columns.js';
import { useMatching } from '../parts/filter.js';
import { History } from '../parts/history.js';
import { Table } from '../parts/table.js';
import { Link, paths } from '../router.js';
import { useList, useRows } from '../store.js';
import { counted, placementWords, short, triggerWords } from '../words.js';

/** @typedef {Record<string, any>} Row */

export function Evaluations() {
  const all = useList('Evaluation');
  const [status, setStatus] = useState('');
  const [text, setText] = useState('');
  const { matching, error } = useMatching({ path: '/v1/evaluations', topic: 'Evaluation', text, id: (row) => row.ID });
  const rows = useMemo(() => all.filter((row) => (status === '' || row.Status === status) && (matching === null
    ? row.JobID.includes(text) || row.ID.startsWith(text) : matching.has(row.ID))), [all, status, text, matching]);
  return html`<${Head} title="Evaluations" /><div class="tools"><input class="grow" type="search"
    aria-label="Filter evaluations" placeholder='Part of a job or id, or a filter: TriggeredBy == "node-drain"' value=${text}
    onInput=${(/** @type {any} */ e) => setText(e.target.value)} />${['', 'pending', 'blocked', 'complete', 'failed',
    'canceled'].map((word) =>
      html`<button type="button" aria-pressed=${status === word} onClick=${() => setStatus(word)}>${word === '' ? 'All'
        : word}</button>`)}
      <span class="dim">${counted(rows.length, 'evaluation')}</span></div><${Failed} error=${error} />
    <section class="card"><${Table} label="Evaluations" rows=${rows} id=${(/** @type {Row} */ row) => row.ID}
      sort="Created" down
      to=${(/** @type {Row} */ row) => paths.evaluation(row.ID)} empty="No evaluation is here."
      columns=${[evaluation.id, evaluation.job, evaluation.status, evaluation.trigger, evaluation.placed, evaluation.priority, evaluation.created]} /></section>`;
}

/** @param {{id: string}} props */
export function Evaluation({ id }) {
  const row = useRows('Evaluation').get(id);
  const got = useGet(row ? null : `/v1/evaluation/${encodeURIComponent(id)}`);
  const found = row ?? got.data;
  const allocs = [...useRows('Allocation').values()].filter((other) => other.EvalID === id);
  if (!found) return html`<${Head} title=${short(id)} over=${html`<${Link} to="/evaluations">Evaluations<//>`} />
    <${Failed} error=${got.error} />`;
  const other = (/** @type {string} */ to) => (to ? html`<${Link} class="mono" to=${paths.evaluation(to)}>
    ${short(to)}<//>` : '');
  const failed = Object.entries(found.FailedTGAllocs ?? {});
  return html`<${Head} title=${`Evaluation ${short(id)}`} status=${html`<${Status} value=${found.Status} />`}
      over=${html`<${Link} to=${paths.job({ ID: found.JobID, Namespace: found.Namespace })}>
        ${found.JobID}<//> · <span class="mono">${id}</span>`} />
    ${failed.map(([group, metric]) => html`<div class="note warn" key=${group}><strong>${group}</strong><ul>${
      placementWords(group, /** @type {Row} */ (metric)).map((line) => html`<li>${line}</li>`)}</ul></div>`)}
    <${Card} title="Facts"><${Pairs} pairs=${[['Made because', triggerWords(found.TriggeredBy)],
      ['Says', found.StatusDescription],
      ['Priority', found.Priority], ['Created', html`<${Time} time=${found.CreateTime} />`],
        ['Before it', other(found.PreviousEval)],
      ['After it', other(found.NextEval)], ['Waits as', other(found.BlockedEval)],
      ['Deployment', found.DeploymentID ? html`<${Link} class="mono" to=${paths.deployment(found.DeploymentID)}>
        ${short(found.DeploymentID)}<//>` : '']]} /><//>
    <${Card} title="Placed allocations"><${Table} label="Placed allocations" rows=${allocs}
      id=${(/** @type {Row} */ a) => a.ID}
      to=${(/** @type {Row} */ a) => paths.alloc(a.ID)} empty="Its plan placed none."
        columns=${[alloc.id, alloc.name, alloc.status, alloc.node, alloc.changed]} /><//>
    <${History} kind="evaluation" id=${id} namespace=${found.Namespace} topic="Evaluation" />`;
}
