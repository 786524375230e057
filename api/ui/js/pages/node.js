//! Nodes: list, map by datacenter and class, and the page of one node. What one may do to it is in `node-actions.js`.

import { useGet } from '../api.js';
import { html, useMemo, useState } from '../lib.js';
import { Card, Empty, Failed, Head, Meter, Pairs, Status, Time } from '../parts/basics.js';
import { alloc as columns } from '../parts/columns.js';
import { useMatching } from '../parts/filter.js';
import { History } from '../parts/history.js';
import { NodeMap, room, state } from '../parts/map.js';
import { Table } from '../parts/table.js';
import { nodeUse } from '../parts/use.js';
import { Link, paths } from '../router.js';
import { useComputed, useList, useRows, versionOf } from '../store.js';
import { counted, short } from '../words.js';
import { Doing, Drain, DrainForm, Host, Metadata } from './node-actions.js';

/** @typedef {Record<string, any>} Row */

export function Nodes() {
  const use = useComputed('Allocation', nodeUse);
  const [text, setText] = useState('');
  const all = useList('Node');
  const { matching, error } = useMatching({ path: '/v1/nodes', topic: 'Node', text, id: (node) => node.ID });
  const nodes = useMemo(() => all.filter((node) => (matching === null ? node.Name.includes(text) || node.ID.startsWith(text)
    || node.NodeClass === text : matching.has(node.ID))), [all, text, matching]);
  const used = (/** @type {Row} */ node) => use.get(node.ID) ?? { cpu: 0, memory: 0, count: 0 };
  return html`<${Head} title="Nodes" /><div class="tools"><input class="grow" type="search" aria-label="Filter nodes"
    placeholder='Part of a name, id or class, or a filter: Status == down'
    value=${text} onInput=${(/** @type {any} */ e) => setText(e.target.value)} />
      <span class="dim">${counted(nodes.length, 'node')}</span></div>
    <${Failed} error=${error} />${nodes.length > 0 ? html`<${NodeMap} nodes=${nodes} use=${use} />` : null}
    <section class="card"><${Table} label="Nodes" rows=${nodes} id=${(/** @type {Row} */ node) => node.ID} sort="Name"
      to=${(/** @type {Row} */ node) => paths.node(node.ID)} empty="No node is here." columns=${[
        { name: 'Name', by: (node) => node.Name, show: (node) => html`<${Link} to=${paths.node(node.ID)}>
          <strong>${node.Name}</strong><//>` },
        { name: 'Id', by: (node) => node.ID, show: (node) => html`<span class="mono">${short(node.ID)}</span>`,
          class: 'p2' },
        { name: 'Status', by: state, show: (node) => html`<${Status} value=${state(node)} />` },
        { name: 'CPU', class: 'count', by: (node) => used(node).cpu / (room(node).cpu || 1),
          show: (node) => html`<${Meter} label="CPU" used=${used(node).cpu} total=${room(node).cpu} />` },
        { name: 'Memory', class: 'count p2', by: (node) => used(node).memory / (room(node).memory || 1),
          show: (node) => html`<${Meter} label="Memory" used=${used(node).memory} total=${room(node).memory} />` },
        { name: 'Allocations', class: 'num', by: (node) => used(node).count, show: (node) => used(node).count },
        { name: 'Datacenter', by: (node) => node.Datacenter, show: (node) => node.Datacenter, class: 'p2' },
        { name: 'Pool', by: (node) => node.NodePool, show: (node) => node.NodePool, class: 'p3' },
        { name: 'Class', by: (node) => node.NodeClass, show: (node) => node.NodeClass || '—', class: 'p3' },
      ]} /></section>`;
}

/** @param {{id: string}} props */
export function Node({ id }) {
  const row = useRows('Node').get(id);
  const got = useGet(row?.Attributes ? null : `/v1/node/${encodeURIComponent(id)}`, useMemo(() => versionOf('Node'),
    []));
  const node = row?.Attributes ? row : got.data;
  const allocs = [...useRows('Allocation').values()].filter((other) => other.NodeID === id);
  const use = useComputed('Allocation', nodeUse).get(id) ?? { cpu: 0, memory: 0, count: 0 };
  const [text, setText] = useState('');
  const [draining, setDraining] = useState(false);
  if (!node) return html`<${Head} title=${short(id)} over=${html`<${Link} to="/clients">Nodes<//>`} />
    <${Failed} error=${got.error} />`;
  const all = room(node);
  const drivers = Object.entries(node.Drivers ?? {}).filter(([, driver]) => driver.Detected);
  const attributes = Object.entries(/** @type {Record<string, string>} */ (node.Attributes ?? {}))
    .filter(([key, value]) => `${key}=${value}`.includes(text)).sort();
  return html`<${Head} title=${node.Name} over=${html`<${Link} to="/clients">Nodes<//> · <span class="mono">
    ${id}</span>`} status=${html`<${Status} value=${state(node)} />`}
      aside=${html`<${Doing} node=${node} drain=${() => setDraining(true)} />`} />
    ${node.DrainStrategy ? html`<${Drain} node=${node} left=${use.count} />`
      : draining ? html`<${DrainForm} node=${node} close=${() => setDraining(false)} />` : null}
    <div class="grid"><div class="c8 stack"><${Card} title="Allocations"><${Table} label="Allocations" rows=${allocs}
        id=${(/** @type {Row} */ other) => other.ID} to=${(/** @type {Row} */ other) => paths.alloc(other.ID)}
          sort="Changed" down
        empty="Nothing runs here." columns=${[columns.id, columns.job, columns.status, columns.wanted, columns.changed]} /><//>
      <${History} kind="node" id=${id} topic="Node" /></div>
    <div class="c4 stack"><${Card} title="Reserved"><div class="body stack">
        <div><h3>CPU</h3><${Meter} label="CPU" used=${use.cpu} total=${all.cpu}
          text=${`${use.cpu} of ${all.cpu} MHz`} /></div>
        <div><h3>Memory</h3><${Meter} label="Memory" used=${use.memory} total=${all.memory}
          text=${`${use.memory} of ${all.memory} MiB`} /></div></div><//>
      <${Host} node=${node} />
      <${Card} title="Facts"><${Pairs} pairs=${[['Datacenter', node.Datacenter], ['Pool', node.NodePool],
        ['Class', node.NodeClass],
        ['Address', node.HTTPAddr], ['Eligibility', node.SchedulingEligibility],
          ['Version', node.Attributes?.['nomad.version']]]} /><//>
      <${Card} title="Drivers">${drivers.length === 0 ? html`<${Empty}>None.<//>`
        : html`<div class="body stack">${drivers.map(([name, driver]) =>
        html`<div class="pair"><${Status} value=${driver.Healthy ? 'healthy' : 'unhealthy'} /> <strong>
          ${name}</strong> <span class="dim">${driver.HealthDescription}</span></div>`)}</div>`}<//>
      <${Card} title="Events"><ul class="feed">${[...(node.Events ?? [])].reverse().map((event) => html`<li>
        <span class="index">${event.CreateIndex || ''}</span>
        <span class="what" title=${event.Message}>${event.Message}</span><small><${Time}
          time=${event.Timestamp} /></small></li>`)}</ul><//>
      <${Metadata} node=${node} />
      <${Card} title="Attributes"><div class="body stack"><input type="search" aria-label="Filter attributes"
        placeholder="Part of a name or value"
        value=${text} onInput=${(/** @type {any} */ e) => setText(e.target.value)} />
        <div class="fields">${attributes.map(([key, value]) => html`<div key=${key}>
          <span class="path">${key}</span> ${value}</div>`)}</div></div><//></div></div>`;
}
