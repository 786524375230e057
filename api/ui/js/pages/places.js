//! Namespaces, node pools, and quotas with their use: the lists. Their editors are in `places/`.

import { useGet } from '../api.js';
import { html, useMemo } from '../lib.js';
import { Card, Empty, Failed, Head } from '../parts/basics.js';
import { Table } from '../parts/table.js';
import { Link } from '../router.js';
import { namespace, useRows, versionOf } from '../store.js';
import { NamespaceEditor } from './places/namespace.js';
import { PoolEditor } from './places/pool.js';
import { QuotaEditor, Use } from './places/quota.js';

/** @typedef {Record<string, any>} Row */
/** @typedef {import('../parts/table.js').Column} Column */

/** @param {string} kind @returns {(row: Row) => string} */
const editor = (kind) => (row) => `/places/${kind}/${encodeURIComponent(row.Name)}`;
/** @param {string} kind @returns {Column} */
const name = (kind) => ({ name: 'Name', by: (row) => row.Name, show: (row) => html`<${Link} to=${editor(kind)(row)}>
  <strong>${row.Name}</strong><//>` });
/** @type {Column} */
const words = { name: 'Description', show: (row) => row.Description || '—', class: 'wide p2' };
const id = (/** @type {Row} */ row) => row.Name;

/** @param {{kind: string, children: any}} props */
const New = ({ kind, children }) => html`<${Link} class="button" to=${`/places/new-${kind}`}>${children}<//>`;

function Lists() {
  const spaces = [...useRows('Namespace').values()];
  const pools = [...useRows('NodePool').values()];
  const jobs = [...useRows('Job').values()];
  const nodes = [...useRows('Node').values()];
  const quotas = useGet('/v1/quotas', useMemo(() => versionOf('Quota'), []));
  const usage = useGet('/v1/quota-usages', useMemo(() => versionOf('Quota', 'Allocation'), []));
  const used = new Map((usage.data ?? []).map((/** @type {Row} */ row) => [row.Name, row]));
  return html`<${Head} title="Namespaces and pools" />
    <${Card} title="Namespaces" aside=${html`<${New} kind="namespace">New namespace<//>`}><${Table} label="Namespaces"
      rows=${spaces} sort="Name" id=${id} to=${editor('namespaces')} empty="None is shown to this token."
      columns=${[name('namespaces'), words, { name: 'Quota', show: (row) => (row.Quota ? html`<${Link}
        to=${editor('quotas')({ Name: row.Quota })}>${row.Quota}<//>` : '—') },
        { name: 'Jobs', class: 'num', by: (row) => row.Name, show: (row) => html`<${Link} to="/jobs"
          onClick=${() => { namespace.value = row.Name; }}>
          ${jobs.filter((job) => job.Namespace === row.Name).length}<//>` }]} /><//>
    <${Card} title="Node pools" aside=${html`<${New} kind="pool">New node pool<//>`}><${Table} label="Node pools"
      rows=${pools} sort="Name" id=${id} to=${editor('pools')} empty="None is shown to this token."
      columns=${[name('pools'), words, { name: 'Nodes', class: 'num', show: (row) => (row.Name === 'all' ? nodes
        : nodes.filter((node) => node.NodePool === row.Name)).length }]} /><//>
    <${Card} title="Quotas" aside=${html`<${New} kind="quota">New quota<//>`}>
      ${quotas.error ? html`<div class="body"><${Failed} error=${quotas.error} /></div>`
        : (quotas.data ?? []).length === 0 ? html`<${Empty}>No quota is set.<//>`
          : html`<div class="body stack">${quotas.data.map((/** @type {Row} */ row) => html`<div key=${row.Name}>
            <${Link} to=${editor('quotas')(row)}><strong>${row.Name}</strong><//>
            ${' '}<span class="dim">${row.Description}</span><${Use} quota=${row}
              usage=${used.get(row.Name)} /></div>`)}</div>`}<//>`;
}

/** @param {{parts: string[]}} props */
export function Places({ parts }) {
  const [kind = '', of = ''] = parts;
  if (kind === 'namespaces' || kind === 'new-namespace') return html`<${NamespaceEditor} key=${of} name=${of} />`;
  if (kind === 'pools' || kind === 'new-pool') return html`<${PoolEditor} key=${of} name=${of} />`;
  if (kind === 'quotas' || kind === 'new-quota') return html`<${QuotaEditor} key=${of} name=${of} />`;
  return html`<${Lists} />`;
}
