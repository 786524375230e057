//! Columns of tables that several pages have, and counts of allocations by job and by node.

import { html } from '../lib.js';
import { Link, paths } from '../router.js';
import { short, triggerWords } from '../words.js';
import { Bar, Status, Time } from './basics.js';

/** @typedef {Record<string, any>} Row */

/** @param {Row} row */
const created = (row) => row.CreateTime ?? 0;

/** @type {Record<string, import('./table.js').Column>} */
export const alloc = {
  id: { name: 'Allocation', by: (row) => row.ID, show: (row) => html`<${Link} class="mono"
    to=${paths.alloc(row.ID)}>${short(row.ID)}<//>` },
  name: { name: 'Name', by: (row) => row.Name, show: (row) => html`<span class="clip">${row.Name}</span>`,
    class: 'p2' },
  job: { name: 'Job', by: (row) => row.JobID,
    show: (row) => html`<${Link} to=${paths.job({ ID: row.JobID, Namespace: row.Namespace })}>${row.JobID}<//>` },
  status: { name: 'Status', by: (row) => row.ClientStatus, show: (row) => html`<${Status}
    value=${row.ClientStatus} />` },
  wanted: { name: 'Wanted', by: (row) => row.DesiredStatus, show: (row) => row.DesiredStatus, class: 'p2' },
  node: { name: 'Node', by: (row) => row.NodeName ?? '', class: 'p2',
    show: (row) => html`<${Link} to=${paths.node(row.NodeID)}>${row.NodeName || short(row.NodeID)}<//>` },
  version: { name: 'Version', by: (row) => row.JobVersion ?? row.Job?.Version ?? 0, class: 'num p3',
    show: (row) => row.JobVersion ?? row.Job?.Version ?? '' },
  description: { name: 'Why', show: (row) => html`<span class="clip dim">
    ${row.DesiredDescription || row.ClientDescription}</span>`,
    class: 'p3 wide' },
  created: { name: 'Created', by: created, show: (row) => html`<${Time} time=${row.CreateTime} />`, class: 'num p3' },
  changed: { name: 'Changed', by: (row) => row.ModifyTime ?? 0, show: (row) => html`<${Time} time=${row.ModifyTime} />`,
    class: 'num' },
};

/** @type {Record<string, import('./table.js').Column>} */
export const evaluation = {
  id: { name: 'Evaluation', by: (row) => row.ID,
    show: (row) => html`<${Link} class="mono" to=${paths.evaluation(row.ID)}>${short(row.ID)}<//>` },
  job: { name: 'Job', by: (row) => row.JobID,
    show: (row) => html`<${Link} to=${paths.job({ ID: row.JobID, Namespace: row.Namespace })}>${row.JobID}<//>` },
  status: { name: 'Status', by: (row) => row.Status, show: (row) => html`<${Status} value=${row.Status} />` },
  trigger: { name: 'Because', by: (row) => row.TriggeredBy, show: (row) => triggerWords(row.TriggeredBy), class: 'p2' },
  placed: { name: 'Placement', by: (row) => Object.keys(row.FailedTGAllocs ?? {}).length, class: 'p2',
    show: (row) => (row.FailedTGAllocs ? html`<span class="status warn"><i aria-hidden="true"></i>incomplete</span>`
      : '') },
  priority: { name: 'Priority', by: (row) => row.Priority, show: (row) => row.Priority, class: 'num p3' },
  created: { name: 'Created', by: created, show: (row) => html`<${Time} time=${row.CreateTime} />`, class: 'num' },
};

/** @type {Record<string, import('./table.js').Column>} */
export const deployment = {
  id: { name: 'Deployment', by: (row) => row.ID,
    show: (row) => html`<${Link} class="mono" to=${paths.deployment(row.ID)}>${short(row.ID)}<//>` },
  job: { name: 'Job', by: (row) => row.JobID,
    show: (row) => html`<${Link} to=${paths.job({ ID: row.JobID, Namespace: row.Namespace })}>${row.JobID}<//>` },
  version: { name: 'Version', by: (row) => row.JobVersion, show: (row) => row.JobVersion, class: 'num p2' },
  status: { name: 'Status', by: (row) => row.Status, show: (row) => html`<${Status} value=${row.Status} />` },
  health: { name: 'Healthy', show: (row) => html`<${Progress} deployment=${row} />` },
  words: { name: 'Says', show: (row) => html`<span class="clip dim">${row.StatusDescription}</span>`,
    class: 'p3 wide' },
  index: { name: 'Index', by: (row) => row.ModifyIndex, show: (row) => row.ModifyIndex, class: 'num p3' },
};

/** @param {{deployment: Row}} props */
function Progress({ deployment: row }) {
  const groups = Object.values(row.TaskGroups ?? {});
  const sum = (/** @type {string} */ field) => groups.reduce((all, group) => all + (group[field] ?? 0), 0);
  const healthy = sum('HealthyAllocs');
  const unhealthy = sum('UnhealthyAllocs');
  const total = Math.max(sum('DesiredTotal'), healthy + unhealthy);
  return html`<span class="pair"><${Bar} label="Health" parts=${[
    { name: 'healthy', count: healthy }, { name: 'unhealthy', count: unhealthy },
    { name: 'pending', count: total - healthy - unhealthy }]} /><small class="dim">${healthy}/${total}</small></span>`;
}

/**
 * Allocations of each value of a field.
 * @param {Map<string, Row>} allocs
 * @param {(row: Row) => string} key
 * @returns {Map<string, Row[]>}
 */
export function grouped(allocs, key) {
  /** @type {Map<string, Row[]>} */
  const out = new Map();
  for (const row of allocs.values()) {
    const at = key(row);
    const list = out.get(at);
    if (list === undefined) out.set(at, [row]);
    else list.push(row);
  }
  return out;
}

/** @param {Row[]} allocs */
export function byStatus(allocs) {
  const counts = { running: 0, pending: 0, failed: 0, lost: 0, unknown: 0, complete: 0 };
  for (const row of allocs) {
    const status = /** @type {keyof typeof counts} */ (row.ClientStatus);
    if (status in counts) counts[status] += 1;
  }
  return Object.entries(counts).map(([name, count]) => ({ name, count }));
}

/** Allocations that count for what runs now. @param {Row[]} allocs */
export const wanted = (allocs) => allocs.filter((row) => row.DesiredStatus === 'run' || row.ClientStatus === 'running');
