//! Jobs: the list, and the frame of one job's page. Its tabs with versions and definition are in `versions.js`.

import { useGet, write } from '../api.js';
import { html, useEffect, useMemo, useState } from '../lib.js';
import { Action, Bar, Card, Empty, Failed, Head, Pairs, Status, Tabs, Time } from '../parts/basics.js';
import { alloc, byStatus, deployment, evaluation, grouped, wanted } from '../parts/columns.js';
import { useMatching } from '../parts/filter.js';
import { History } from '../parts/history.js';
import { Table } from '../parts/table.js';
import { Link, go, paths } from '../router.js';
import { useComputed, useList, useRows, versionOf } from '../store.js';
import { counted, placementWords } from '../words.js';
import { Rollout } from './deployments.js';
import { Dispatch, Groups } from './groups.js';
import { JobFile } from './run.js';
import { JobServices } from './services.js';
import { Versions } from './versions.js';

/** @typedef {Record<string, any>} Row */

/** @param {Map<string, Row>} rows */
const allocsByJob = (rows) => grouped(rows, (row) => `${row.Namespace}/${row.JobID}`);

/** @param {Row} job @param {Row[]} allocs */
function counts(job, allocs) {
  if (job.JobSummary === undefined || job.JobSummary === null) return byStatus(wanted(allocs));
  const sum = { running: 0, starting: 0, queued: 0, failed: 0, lost: 0, unknown: 0, complete: 0 };
  for (const group of Object.values(job.JobSummary.Summary ?? {})) {
    sum.running += group.Running;
    sum.starting += group.Starting;
    sum.queued += group.Queued;
    sum.failed += group.Failed;
    sum.lost += group.Lost;
    sum.unknown += group.Unknown;
    sum.complete += group.Complete;
  }
  return Object.entries(sum).map(([name, count]) => ({ name, count }));
}

/** Running allocations of those that the job wants. @param {Row} job @param {Row[]} allocs */
function running(job, allocs) {
  const now = counts(job, allocs).find(({ name }) => name === 'running')?.count ?? 0;
  if (job.Type !== 'service' || job.TaskGroups === undefined) return now === 0 ? '' : String(now);
  return `${now}/${job.TaskGroups.reduce((/** @type {number} */ sum, /** @type {Row} */ group) =>
    sum + group.Count, 0)}`;
}

/** @param {Row} job */
function kind(job) {
  if (job.Periodic) return `${job.Type}, periodic`;
  if (job.ParameterizedJob) return `${job.Type}, parameterized`;
  return job.Type;
}

/** @param {{query: URLSearchParams}} props */
export function Jobs({ query }) {
  const jobs = useList('Job');
  const evals = useList('Evaluation');
  const [text, setText] = useState(query.get('filter') ?? '');
  const [status, setStatus] = useState('');
  const { matching, error } = useMatching({ path: '/v1/jobs', topic: 'Job', text, id: (job) => `${job.Namespace}/${job.ID}` });
  const byJob = useComputed('Allocation', allocsByJob);
  const blocked = useMemo(() => new Set(evals.filter((row) => row.Status === 'blocked')
    .map((row) => `${row.Namespace}/${row.JobID}`)), [evals]);
  const rows = useMemo(() => jobs.filter((job) => (text !== '' || !job.ParentID) && (status === '' || job.Status === status)
    && (matching === null ? job.ID.toLowerCase().includes(text.toLowerCase())
      : matching.has(`${job.Namespace}/${job.ID}`))), [jobs, text, status, matching]);
  const of = (/** @type {Row} */ job) => byJob.get(`${job.Namespace}/${job.ID}`) ?? [];
  return html`<${Head} title="Jobs" aside=${html`<${Link} class="button" to="/jobs/run">Run a job<//>`} />
    <div class="tools"><input class="grow" type="search" aria-label="Filter jobs" value=${text}
      placeholder='Part of a name, or a filter: Type == batch' onInput=${(/** @type {any} */ e) =>
        setText(e.target.value)} />
      ${['', 'running', 'pending', 'dead'].map((word) => html`<button type="button" aria-pressed=${status === word}
        onClick=${() => setStatus(word)}>${word === '' ? 'All' : word}</button>`)}
      <span class="dim">${counted(rows.length, 'job')}</span></div>
    <${Failed} error=${error} />
    <section class="card"><${Table} label="Jobs" rows=${rows}
      id=${(/** @type {Row} */ job) => `${job.Namespace}/${job.ID}`}
      to=${(/** @type {Row} */ job) => paths.job(job)} sort="Name" empty="No job is here." columns=${[
        { name: 'Name', by: (job) => job.ID, show: (job) => html`<${Link} to=${paths.job(job)}>
          <strong>${job.ID}</strong><//>` },
        { name: 'Status', by: (job) => job.Status, show: (job) => html`<span class="pair">
          <${Status} value=${job.Status} />
          ${blocked.has(`${job.Namespace}/${job.ID}`) ? html`<${Status} value="blocked" />` : null}</span>` },
        { name: 'Allocations', class: 'count', by: (job) => of(job).length,
          show: (job) => html`<span class="pair"><${Bar} label="Allocations" parts=${counts(job, of(job))} />
            <span class="counted">${running(job, of(job))}</span></span>` },
        { name: 'Type', by: kind, show: kind, class: 'p2' },
        { name: 'Namespace', by: (job) => job.Namespace, show: (job) => job.Namespace, class: 'p2' },
        { name: 'Priority', by: (job) => job.Priority, show: (job) => job.Priority, class: 'num p3' },
        { name: 'Submitted', by: (job) => job.SubmitTime, show: (job) => html`<${Time}
          time=${job.SubmitTime} />`, class: 'num p2' },
      ]} /></section>`;
}

/** Latest failure to place, in words. @param {{evals: Row[]}} props */
function Placement({ evals }) {
  const blocked = evals.find((row) => row.Status === 'blocked');
  const failing = blocked ?? (evals[0]?.FailedTGAllocs ? evals[0] : undefined);
  if (failing === undefined) return null;
  return html`<div class="note warn"><strong>Waiting for room</strong> since <${Time} time=${failing.CreateTime} />
    (<${Link} to=${paths.evaluation(failing.ID)}>evaluation<//>)
    ${Object.entries(failing.FailedTGAllocs ?? {}).map(([group, metric]) => html`<ul>${
      placementWords(group, /** @type {Row} */ (metric)).map((line) => html`<li>${line}</li>`)}</ul>`)}</div>`;
}

/** @param {{job: Row, allocs: Row[], evals: Row[], deployments: Row[], children: Row[]}} props */
function Summary({ job, allocs, evals, deployments, children }) {
  const meta = Object.entries(job.Meta ?? {});
  return html`<${Placement} evals=${evals} />
    ${deployments[0] && ['running', 'paused'].includes(deployments[0].Status) ? html`<${Rollout}
      deployment=${deployments[0]} />` : null}
    ${job.ParameterizedJob && !job.Stop ? html`<${Dispatch} job=${job} />` : null}
    <${Groups} job=${job} allocs=${allocs} />
    ${children.length === 0 ? null : html`<${Card} title="Runs"><${Table} label="Runs" rows=${children}
      sort="Submitted" down
      id=${(/** @type {Row} */ row) => row.ID} to=${(/** @type {Row} */ row) => paths.job(row)} columns=${[
        { name: 'Job', by: (row) => row.ID, show: (row) => html`<${Link} to=${paths.job(row)}>${row.ID}<//>` },
        { name: 'Status', by: (row) => row.Status, show: (row) => html`<${Status} value=${row.Status} />` },
        { name: 'Submitted', by: (row) => row.SubmitTime, show: (row) => html`<${Time}
          time=${row.SubmitTime} />`, class: 'num' }]} /><//>`}
    <${Card} title="Allocations"><${Allocations} rows=${allocs} /><//>
    <${Card} title="Facts"><${Pairs} pairs=${[['Type', kind(job)], ['Namespace', job.Namespace],
      ['Priority', job.Priority],
      ['Datacenters', (job.Datacenters ?? []).join(', ')], ['Pool', job.NodePool], ['Version', job.Version],
      ['Submitted', html`<${Time} time=${job.SubmitTime} />`], ...meta]} /><//>`;
}

/** @param {{rows: Row[]}} props */
function Allocations({ rows }) {
  return html`<${Table} label="Allocations" rows=${rows} id=${(/** @type {Row} */ row) => row.ID} sort="Changed" down
    to=${(/** @type {Row} */ row) => paths.alloc(row.ID)} empty="No allocation yet."
    columns=${[alloc.id, alloc.name, alloc.status, alloc.wanted, alloc.node, alloc.description, alloc.changed]} />`;
}

/** Parts of a job's page. */
export const TABS = /** @type {[string, string][]} */ ([['', 'Overview'], ['definition', 'Definition'],
  ['versions', 'Versions'],
  ['deployments', 'Deployments'], ['evaluations', 'Evaluations'], ['services', 'Services'], ['history', 'History']]);

/** @param {{name: string, tab: string}} props */
export function Job({ name, tab }) {
  const split = name.lastIndexOf('@');
  const id = split < 0 ? name : name.slice(0, split);
  const space = split < 0 ? 'default' : name.slice(split + 1);
  const row = useRows('Job').get(`${space}/${id}`);
  const query = `namespace=${encodeURIComponent(space)}`;
  const got = useGet(`/v1/job/${encodeURIComponent(id)}?${query}`, useMemo(() => versionOf('Job'), []));
  const mine = (/** @type {Row} */ other) => other.JobID === id && other.Namespace === space;
  const allocs = [...useRows('Allocation').values()].filter(mine);
  const evals = [...useRows('Evaluation').values()].filter(mine).sort((a, b) => b.CreateIndex - a.CreateIndex);
  const deployments = [...useRows('Deployment').values()].filter(mine).sort((a, b) => b.CreateIndex - a.CreateIndex);
  const children = [...useRows('Job').values()].filter((job) => job.ParentID === id && job.Namespace === space);
  // A row of the stream is newer than the answer, and whole; a row of a past list is a stub.
  const job = row?.TaskGroups ? row : got.data;
  useEffect(() => { document.title = `${id} · Songline`; }, [id]);
  if (job === null || job === undefined) {
    return html`<${Head} title=${id} /><${Failed} error=${got.error} />${got.loading
      ? html`<${Empty}>Reading…<//>` : null}`;
  }
  const path = `/v1/job/${encodeURIComponent(id)}`;
  return html`<${Head} title=${id} over=${html`<${Link} to="/jobs">Jobs<//> · ${space}
      ${job.ParentID ? html` · <${Link} to=${paths.job({ ID: job.ParentID, Namespace: space })}>${job.ParentID}<//>`
        : null}`}
      status=${html`<${Status} value=${job.Stop ? 'stopped' : job.Status} />`}
      aside=${html`${job.Periodic && !job.Stop ? html`<${Action} kind="main" run=${() =>
          write('POST', `${path}/periodic/force?${query}`)}>Run now<//>` : null}${job.Stop
        ? html`<${Action} run=${() => write('POST', '/v1/jobs', { Job: { ...job, Stop: false } })}>Start again<//>
          <${Action} confirm="Delete it with its history" run=${() => write('DELETE', `${path}?purge=true&${query}`)}
            done=${() => go('/jobs')}>Purge<//>`
        : html`${job.Periodic || job.ParameterizedJob ? null : html`<${Action} run=${() => write('POST',
            `${path}/evaluate?${query}`, { JobID: id, EvalOptions: { ForceReschedule: true } })}>Evaluate<//>`}
          <${Action} confirm=${`Stop ${id}`} run=${() => write('DELETE', `${path}?${query}`)}>Stop<//>`}`} />
    <${Tabs} label="Parts of the job" tabs=${TABS} chosen=${tab} to=${(/** @type {string} */ to) =>
      paths.job({ ID: id, Namespace: space }, to)} />
    ${tab === '' ? html`<${Summary} ...${{ job, allocs, evals, deployments, children }} />` : null}
    ${tab === 'definition' ? html`<${JobFile} job=${job} />` : null}
    ${tab === 'versions' ? html`<${Versions} job=${job} />` : null}
    ${tab === 'deployments' && deployments[0] ? html`<${Rollout} deployment=${deployments[0]} />` : null}
    ${tab === 'deployments' ? html`<section class="card"><${Table} label="Deployments" rows=${deployments}
      id=${(/** @type {Row} */ d) => d.ID} to=${(/** @type {Row} */ d) => paths.deployment(d.ID)} empty="No deployment."
      columns=${[deployment.id, deployment.version, deployment.status, deployment.health, deployment.words]} /></section>` : null}
    ${tab === 'evaluations' ? html`<section class="card"><${Table} label="Evaluations" rows=${evals}
      id=${(/** @type {Row} */ e) => e.ID} to=${(/** @type {Row} */ e) => paths.evaluation(e.ID)} empty="No evaluation."
      columns=${[evaluation.id, evaluation.status, evaluation.trigger, evaluation.placed, evaluation.created]} /></section>` : null}
    ${tab === 'services' ? html`<${JobServices} id=${id} space=${space} />` : null}
    ${tab === 'history' ? html`<${History} kind="job" id=${id} namespace=${space} topic="Job" />` : null}`;
}
