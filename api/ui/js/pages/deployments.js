//! Deployments: the list, and one with its progress, canaries, and promote, pause and fail.

import { useGet, write } from '../api.js';
import { html } from '../lib.js';
import { Action, Bar, Card, Failed, Head, Status } from '../parts/basics.js';
import { alloc, deployment } from '../parts/columns.js';
import { History } from '../parts/history.js';
import { Table } from '../parts/table.js';
import { Link, paths } from '../router.js';
import { useList, useRows } from '../store.js';
import { counted, short } from '../words.js';

/** @typedef {Record<string, any>} Row */

export function Deployments() {
  const rows = useList('Deployment');
  return html`<${Head} title="Deployments" /><section class="card"><${Table} label="Deployments" rows=${rows}
    sort="Index" down
    id=${(/** @type {Row} */ row) => row.ID} to=${(/** @type {Row} */ row) => paths.deployment(row.ID)}
      empty="No deployment is here."
    columns=${[deployment.id, deployment.job, deployment.version, deployment.status, deployment.health, deployment.words, deployment.index]} /></section>`;
}

/** Canaries of a group, each with its health. @param {{ids: string[]}} props */
function Canaries({ ids }) {
  const allocs = useRows('Allocation');
  if (ids.length === 0) return null;
  return html`<div class="tools flat">${ids.map((id) => {
    const row = allocs.get(id);
    const healthy = row?.DeploymentStatus?.Healthy;
    return html`<span key=${id} class="pair"><${Link} class="mono" to=${paths.alloc(id)}>${short(id)}<//>
      <${Status} value=${healthy === true ? 'healthy' : healthy === false ? 'unhealthy' : row?.ClientStatus ?? 'pending'} /></span>`;
  })}</div>`;
}

/** Progress of a deployment by group, and what one may do to it. @param {{deployment: Row}} props */
export function Rollout({ deployment: row }) {
  const groups = Object.entries(/** @type {Record<string, Row>} */ (row.TaskGroups ?? {}));
  const runs = ['running', 'paused', 'pending', 'blocked', 'unblocking'].includes(row.Status);
  const waits = groups.some(([, group]) => group.DesiredCanaries > 0 && !group.Promoted);
  const send = (/** @type {string} */ what, /** @type {Row} */ body) => write('POST',
    `/v1/deployment/${what}/${row.ID}`, { DeploymentID: row.ID, ...body });
  return html`<${Card} title=${html`<${Link}
    to=${paths.deployment(row.ID)}>Deployment of version ${row.JobVersion}<//> <${Status} value=${row.Status} />`}
    aside=${runs ? html`${waits ? html`<${Action} kind="main" run=${() => send('promote',
      { All: true })}>Promote canaries<//>` : null}
      <${Action} run=${() => send('pause', { Pause: row.Status !== 'paused' })}>${row.Status === 'paused' ? 'Resume'
        : 'Pause'}<//>
      <${Action} confirm="Fail the deployment" run=${() => send('fail', {})}>Fail<//>` : null}>
    <div class="body stack"><p>${row.StatusDescription}</p>${groups.map(([name, group]) => {
      const total = Math.max(group.DesiredTotal, group.DesiredCanaries);
      return html`<div key=${name}><div class="pair"><strong>${name}</strong><span class="dim">
        ${group.HealthyAllocs} of ${total} healthy, ${
        group.UnhealthyAllocs} unhealthy${group.DesiredCanaries > 0 ? `, ${counted(group.DesiredCanaries, 'canary',
          'canaries')} ${group.Promoted ? 'promoted' : 'waiting'}` : ''}</span></div>
        <${Bar} label=${name} parts=${[{ name: 'healthy', count: group.HealthyAllocs },
          { name: 'unhealthy', count: group.UnhealthyAllocs },
          { name: 'pending', count: Math.max(0, total - group.HealthyAllocs - group.UnhealthyAllocs) }]} />
        ${runs ? html`<${Canaries} ids=${group.PlacedCanaries ?? []} />` : null}</div>`;
    })}</div><//>`;
}

/** @param {{id: string}} props */
export function Deployment({ id }) {
  const row = useRows('Deployment').get(id);
  const got = useGet(row ? null : `/v1/deployment/${encodeURIComponent(id)}`);
  const found = row ?? got.data;
  const allocs = [...useRows('Allocation').values()].filter((other) => other.DeploymentID === id);
  if (!found) return html`<${Head} title=${short(id)} over=${html`<${Link} to="/deployments">Deployments<//>`} />
    <${Failed} error=${got.error} />`;
  return html`<${Head} title=${`Deployment ${short(id)}`}
      over=${html`<${Link} to=${paths.job({ ID: found.JobID, Namespace: found.Namespace })}>
        ${found.JobID}<//> · <span class="mono">${id}</span>`} />
    <${Rollout} deployment=${found} />
    <${Card} title="Allocations"><${Table} label="Allocations" rows=${allocs} id=${(/** @type {Row} */ a) => a.ID}
      to=${(/** @type {Row} */ a) => paths.alloc(a.ID)}
      empty="No allocation yet." columns=${[alloc.id, alloc.name, alloc.status, alloc.node,
        { name: 'Health', class: 'p2',
        show: (/** @type {Row} */ a) => (a.DeploymentStatus?.Healthy === true ? html`<${Status} value="healthy" />`
          : a.DeploymentStatus?.Healthy === false ? html`<${Status} value="unhealthy" />`
            : '') }, alloc.changed]} /><//>
    <${History} kind="deployment" id=${id} namespace=${found.Namespace} topic="Deployment" />`;
}
