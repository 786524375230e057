//! Editor of a node pool, with its nodes.

import { useGet, write } from '../../api.js';
import { html, useMemo, useState } from '../../lib.js';
import { Action, Card, Failed, Head, Status } from '../../parts/basics.js';
import { Choice, Newer, Text, useDraft } from '../../parts/form.js';
import { History } from '../../parts/history.js';
import { Table } from '../../parts/table.js';
import { Link, go, paths } from '../../router.js';
import { useRows, versionOf } from '../../store.js';

/** @typedef {Record<string, any>} Row */

const BUILT_IN = ['all', 'default'];

/** @param {{name: string}} props  empty for a new pool */
export function PoolEditor({ name }) {
  const isNew = name === '';
  const path = (/** @type {string} */ of) => `/v1/node/pool/${encodeURIComponent(of)}`;
  const got = useGet(isNew ? null : path(name), useMemo(() => versionOf('NodePool'), []));
  // Before the server's fields are here, typing and saving would write over them.
  const isLoaded = isNew || got.data !== null;
  const nodes = [...useRows('Node').values()].filter((node) => name === 'all' || node.NodePool === name);
  const [typed, setTyped] = useState('');
  const draft = useDraft({ description: '', algorithm: '' }, got.data === null ? null : {
    description: got.data.Description ?? '', algorithm: got.data.SchedulerConfiguration?.SchedulerAlgorithm ?? '' });
  const { description, algorithm } = draft.mine;
  const of = isNew ? typed : name;
  const isFixed = BUILT_IN.includes(name);
  const scheduler = () => {
    const old = got.data?.SchedulerConfiguration ?? null;
    return algorithm === '' && old === null ? null : { ...(old ?? {}), SchedulerAlgorithm: algorithm };
  };
  const run = () => write('POST', '/v1/node/pools', { ...(got.data ?? {}), Name: of, Description: description,
    SchedulerConfiguration: scheduler() });
  return html`<${Head} title=${isNew ? 'New node pool' : name} over=${html`<${Link} to="/places">Node pools<//>`}
      aside=${isFixed ? null : html`${isNew ? null : html`<${Action} confirm="Delete the pool"
        run=${() => write('DELETE', path(name))} done=${() => go('/places')}>Delete<//>`}
      <${Action} kind="main" disabled=${of === '' || !isLoaded} run=${run}
        done=${() => { draft.saved(); if (isNew) go(`/places/pools/${encodeURIComponent(of)}`); }}>
        Save<//>`} />
    <${Failed} error=${got.error} /><${Newer} draft=${draft} /><${Card} title="Node pool"><fieldset
      class="body form" disabled=${!isLoaded}>
      ${isNew ? html`<${Text} label="Name" mono value=${typed} set=${setTyped} />` : null}
      <${Text} label="Description" value=${description}
        set=${(/** @type {string} */ to) => draft.set({ description: to })} disabled=${isFixed} />
      <${Choice} label="Algorithm, empty as in the cluster" of=${['', 'binpack', 'spread']} value=${algorithm}
        set=${(/** @type {string} */ to) => draft.set({ algorithm: to })} disabled=${isFixed} /></fieldset><//>
    ${isNew ? null : html`<${Card} title="Nodes"><${Table} label="Nodes" rows=${nodes} sort="Name"
      id=${(/** @type {Row} */ node) => node.ID} to=${(/** @type {Row} */ node) => paths.node(node.ID)}
        empty="No node is in this pool."
      columns=${[{ name: 'Name', by: (/** @type {Row} */ node) => node.Name, show: (/** @type {Row} */ node) =>
        html`<${Link} to=${paths.node(node.ID)}><strong>${node.Name}</strong><//>` },
      { name: 'Status', show: (/** @type {Row} */ node) => html`<${Status} value=${node.Status} />` },
      { name: 'Datacenter', show: (/** @type {Row} */ node) => node.Datacenter, class: 'p2' }]} /><//>
    <${History} kind="node_pool" id=${name} topic="NodePool" />`}`;
}
