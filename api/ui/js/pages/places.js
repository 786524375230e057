//! Namespaces, node pools, and quotas with their use.

import { useGet } from '../api.js';
import { html, useMemo } from '../lib.js';
import { Card, Empty, Failed, Head } from '../parts/basics.js';
import { Table } from '../parts/table.js';
import { Link } from '../router.js';
import { namespace, useRows, versionOf } from '../store.js';

/** @typedef {Record<string, any>} Row */

export function Places() {
  const spaces = [...useRows('Namespace').values()];
  const pools = [...useRows('NodePool').values()];
  const jobs = [...useRows('Job').values()];
  const nodes = [...useRows('Node').values()];
  const quotas = useGet('/v1/quotas', useMemo(() => versionOf('Quota'), []));
  const usage = useGet('/v1/quota-usages', useMemo(() => versionOf('Quota', 'Allocation'), []));
  const used = new Map((usage.data ?? []).map((/** @type {Row} */ row) => [row.Name, row]));
  const name = { name: 'Name', by: (/** @type {Row} */ row) => row.Name, show: (/** @type {Row} */ row) =>
    html`<strong>${row.Name}</strong>` };
  const words = { name: 'Description', show: (/** @type {Row} */ row) => row.Description || '—', class: 'wide' };
  return html`<${Head} title="Namespaces and pools" />
    <${Card} title="Namespaces"><${Table} label="Namespaces" rows=${spaces} sort="Name"
      id=${(/** @type {Row} */ row) => row.Name} empty="None is shown to this token."
      columns=${[{ ...name, show: (row) => html`<${Link} to="/jobs" onClick=${() => { namespace.value = row.Name; }}>
        <strong>${row.Name}</strong><//>` },
        words, { name: 'Quota', show: (row) => row.Quota || '—', class: 'p2' },
        { name: 'Jobs', class: 'num', show: (row) => jobs.filter((job) => job.Namespace === row.Name).length }]} /><//>
    <${Card} title="Node pools"><${Table} label="Node pools" rows=${pools} sort="Name"
      id=${(/** @type {Row} */ row) => row.Name} empty="None is shown to this token."
      columns=${[name, words, { name: 'Nodes', class: 'num', show: (row) => (row.Name === 'all' ? nodes
        : nodes.filter((node) => node.NodePool === row.Name)).length }]} /><//>
    <${Card} title="Quotas">${quotas.error ? html`<div class="body"><${Failed} error=${quotas.error} /></div>`
      : (quotas.data ?? []).length === 0 ? html`<${Empty}>No quota is set.<//>` : html`<${Table} label="Quotas"
        rows=${quotas.data} id=${(/** @type {Row} */ row) => row.Name}
      columns=${[name, words, { name: 'Limits', show: (row) => html`<span class="mono">
        ${JSON.stringify(row.Limits?.[0]?.RegionLimit ?? {})}</span>`, class: 'p2' },
        { name: 'Used', show: (row) => html`<span class="mono">
          ${JSON.stringify(Object.values(used.get(row.Name)?.Used ?? {})[0]?.RegionLimit ?? {})}</span>`,
          class: 'p2' }]} />`}<//>`;
}
