//! Volumes and the plugins that provide them: lists, a volume with its claims and snapshots, and a plugin with its nodes.

import { useGet, write } from '../api.js';
import { html, signal, useMemo, useSignal, useState } from '../lib.js';
import { Action, Card, Empty, Failed, Head, Pairs, Status } from '../parts/basics.js';
import { alloc } from '../parts/columns.js';
import { Table } from '../parts/table.js';
import { Link, go, paths } from '../router.js';
import { namespace, useRows, versionOf } from '../store.js';
import { short, size } from '../words.js';
import { NewVolume } from './storage/new.js';

/** @typedef {Record<string, any>} Row */

const part = encodeURIComponent;
const volumePath = (/** @type {Row} */ row) => `/storage/volumes/${part(row.ID)}/${part(row.Namespace)}`;
const pluginPath = (/** @type {Row} */ row) => `/storage/plugins/${part(row.ID)}`;

function Lists() {
  const space = useSignal(namespace);
  const volumes = useGet(`/v1/volumes?type=csi&namespace=${part(space)}`, useMemo(() => versionOf('CSIVolume'), []));
  const plugins = useGet('/v1/plugins?type=csi', useMemo(() => versionOf('CSIPlugin'), []));
  const hosts = [...useRows('Node').values()].flatMap((node) => Object.values(/** @type {Record<string, Row>} */ (
    node.HostVolumes ?? {})).map((volume) => ({ ...volume, NodeID: node.ID, NodeName: node.Name })));
  return html`<${Head} title="Volumes" aside=${html`<${Link} class="button" to="/storage/new">New volume<//>`} />
    <${Card} title="Volumes"><${Failed} error=${volumes.error} /><${Table} label="Volumes" rows=${volumes.data ?? []}
      id=${(/** @type {Row} */ row) => `${row.Namespace}/${row.ID}`} to=${volumePath}
        empty="No volume is registered." columns=${[
        { name: 'Id', by: (row) => row.ID, show: (row) => html`<${Link}
          to=${volumePath(row)}><strong>${row.ID}</strong><//>` },
        { name: 'Schedulable', show: (row) => html`<${Status} value=${row.Schedulable ? 'ready' : 'blocked'} />` },
        { name: 'Plugin', show: (row) => html`<${Link} to=${pluginPath({ ID: row.PluginID })}>${row.PluginID}<//>` },
        { name: 'Access', show: (row) => row.AccessMode || '—', class: 'p2' },
        { name: 'Namespace', by: (row) => row.Namespace, show: (row) => row.Namespace, class: 'p3' },
        { name: 'Readers', show: (row) => row.CurrentReaders, class: 'num p2' },
        { name: 'Writers', show: (row) => row.CurrentWriters, class: 'num p2' }]} /><//>
    <${Card} title="Plugins"><${Failed} error=${plugins.error} /><${Table} label="Plugins" rows=${plugins.data ?? []}
      id=${(/** @type {Row} */ row) => row.ID} to=${pluginPath} empty="No plugin runs." columns=${[
        { name: 'Id', show: (row) => html`<${Link} to=${pluginPath(row)}><strong>${row.ID}</strong><//>` },
        { name: 'Provider', show: (row) => row.Provider },
        { name: 'Healthy nodes', show: (row) => `${row.NodesHealthy} of ${row.NodesExpected}`, class: 'num' },
        { name: 'Healthy controllers', show: (row) => `${row.ControllersHealthy} of ${row.ControllersExpected}`,
          class: 'num p2' }]} /><//>
    <${Card} title="Host volumes"><${Table} label="Host volumes" rows=${hosts} sort="Name"
      id=${(/** @type {Row} */ row) => `${row.NodeID}/${row.Name}`} empty="No node offers a host volume." columns=${[
        { name: 'Name', by: (row) => row.Name, show: (row) => html`<strong>${row.Name}</strong>` },
        { name: 'Node', by: (row) => row.NodeName, show: (row) => html`<${Link}
          to=${paths.node(row.NodeID)}>${row.NodeName}<//>` },
        { name: 'Path', show: (row) => html`<span class="mono">${row.Path}</span>`, class: 'p2' },
        { name: 'Writable', show: (row) => (row.ReadOnly ? 'read only' : 'yes'), class: 'p3' }]} /><//>`;
}

/** @param {{id: string, space: string}} props */
function Volume({ id, space }) {
  const path = `/v1/volume/csi/${part(id)}`;
  const query = `namespace=${part(space)}`;
  const got = useGet(`${path}?${query}`, useMemo(() => versionOf('CSIVolume', 'Allocation'), []));
  const rows = useRows('Allocation');
  const volume = got.data;
  const head = html`<${Link} to="/storage">Volumes<//> · ${space}`;
  if (volume === null) return html`<${Head} title=${id} over=${head} /><${Failed} error=${got.error} />`;
  const claims = /** @type {Row[]} */ (volume.Allocations ?? []).map((row) => rows.get(row.ID) ?? row);
  const writes = (/** @type {Row} */ row) => row.ID in (volume.WriteAllocs ?? {});
  const isFree = claims.length === 0;
  const detach = (/** @type {string} */ node) => write('DELETE', `${path}/detach?node=${node}&${query}`);
  return html`<${Head} title=${volume.Name || id} over=${head} status=${html`<${Status}
      value=${volume.Schedulable ? 'ready' : 'blocked'} />`}
      aside=${html`<${Action} confirm=${isFree ? 'Forget the volume' : 'Forget it although it is claimed'}
        run=${() => write('DELETE', `${path}?${query}${isFree ? '' : '&force=true'}`)}
          done=${() => go('/storage')}>Deregister<//>
      <${Action} disabled=${!isFree} confirm="Delete what is stored in it"
        run=${() => write('DELETE', `${path}/delete?${query}`)}
        done=${() => go('/storage')}>Delete<//>`} />
    <${Failed} error=${got.error} />
    <${Card} title="Claims"><${Table} label="Claims" rows=${claims} id=${(/** @type {Row} */ row) => row.ID}
      to=${(/** @type {Row} */ row) => paths.alloc(row.ID)} empty="No allocation uses it." columns=${[alloc.id, alloc.job,
        { name: 'Use', show: (row) => (writes(row) ? 'writes' : 'reads') }, alloc.status, alloc.node,
        { name: 'Release', class: 'num p3', show: (row) => html`<${Action} confirm="Detach it from the node"
          run=${() => detach(row.NodeID)}>Detach<//>` }]} /><//>
    <${Card} title="Facts"><${Pairs} pairs=${[['Id', volume.ID], ['External id', volume.ExternalID],
      ['Plugin', html`<${Link} to=${pluginPath({ ID: volume.PluginID })}>${volume.PluginID}<//>`], ['Provider', volume.Provider],
      ['Access', volume.AccessMode], ['Attachment', volume.AttachmentMode],
      ['Capacity', volume.Capacity > 0 ? size(volume.Capacity) : ''],
      ['Nodes', `${volume.NodesHealthy} of ${volume.NodesExpected} healthy`],
      ['Controllers', volume.ControllerRequired ? `${volume.ControllersHealthy} of ${volume.ControllersExpected} healthy` : ''],
      ['Topologies', (volume.Topologies ?? []).map((/** @type {Row} */ one) => Object.entries(one.Segments ?? {})
        .map(([key, value]) => `${key}=${value}`).join(' ')).join('; ')]]} /><//>
    <${Snapshots} volume=${volume} />`;
}

/** Snapshots of a volume: those that the plugin lists, and those that were made here. @param {{volume: Row}} props */
function Snapshots({ volume }) {
  const plugin = part(volume.PluginID);
  // Snapshots are the plugin's: no event tells of them.
  const again = useMemo(() => signal(0), []);
  const [made, setMade] = useState(/** @type {Row[]} */ ([]));
  const got = useGet(`/v1/volumes/snapshot?plugin_id=${plugin}&per_page=100`, again, true);
  const listed = /** @type {Row[]} */ (got.data?.Snapshots ?? []);
  const rows = [...made, ...listed.filter((row) => (row.SourceVolumeID === volume.ID
    || row.ExternalSourceVolumeID === volume.ExternalID) && made.every((other) => other.ID !== row.ID))];
  const make = () => write('PUT', `/v1/volumes/snapshot?namespace=${part(volume.Namespace)}`, { Snapshots: [
    { SourceVolumeID: volume.ID, Name: `${volume.ID}-${new Date().toISOString().slice(0, 19).replaceAll(':', '')}` }] });
  const remove = (/** @type {Row} */ row) => write('DELETE',
    `/v1/volumes/snapshot?plugin_id=${plugin}&snapshot_id=${part(row.ID)}`);
  const gone = (/** @type {Row} */ row) => {
    setMade(made.filter((other) => other.ID !== row.ID));
    again.value += 1;
  };
  return html`<${Card} title="Snapshots" aside=${html`<${Action} run=${make} done=${(/** @type {Row} */ answer) =>
      setMade([...made, ...(answer?.Snapshots ?? [])])}>Make a snapshot<//>`}>
    ${got.error ? html`<${Empty}>The plugin lists none: ${got.error.message}<//>` : null}
    <${Table} label="Snapshots" rows=${rows} id=${(/** @type {Row} */ row) => row.ID}
      empty="None of this volume." columns=${[
      { name: 'Id', show: (row) => html`<span class="mono">${row.ID}</span>` },
      { name: 'Size', show: (row) => size(row.SizeBytes ?? 0), class: 'num' },
      { name: 'Ready', show: (row) => (row.IsReady ? 'yes' : 'not yet') },
      { name: 'Deletion', class: 'num', show: (row) => html`<${Action} confirm="Delete the snapshot"
        run=${() => remove(row)} done=${() => gone(row)}>Delete<//>` }]} /><//>`;
}

/** @param {{id: string}} props */
function Plugin({ id }) {
  const got = useGet(`/v1/plugin/csi/${part(id)}`, useMemo(() => versionOf('CSIPlugin'), []));
  const nodes = useRows('Node');
  const plugin = got.data;
  const head = html`<${Link} to="/storage">Plugins<//>`;
  if (plugin === null) return html`<${Head} title=${id} over=${head} /><${Failed} error=${got.error} />`;
  const parts = (/** @type {string} */ kind, /** @type {any} */ of) => Object.entries(/** @type {Record<string, Row>} */ (of ?? {}))
    .map(([node, row]) => ({ ...row, node, kind }));
  const rows = [...parts('controller', plugin.Controllers), ...parts('node', plugin.Nodes)];
  return html`<${Head} title=${id} over=${head} /><${Failed} error=${got.error} />
    <${Card} title="Facts"><${Pairs} pairs=${[['Provider', plugin.Provider], ['Version', plugin.Version],
      ['Controllers', `${plugin.ControllersHealthy} of ${plugin.ControllersExpected} healthy`],
      ['Nodes', `${plugin.NodesHealthy} of ${plugin.NodesExpected} healthy`]]} /><//>
    <${Card} title="Instances"><${Table} label="Instances" rows=${rows}
      id=${(/** @type {Row} */ row) => `${row.kind}/${row.node}`}
      empty="No instance runs." columns=${[
      { name: 'Node', show: (row) => html`<${Link}
        to=${paths.node(row.node)}>${nodes.get(row.node)?.Name ?? short(row.node)}<//>` },
      { name: 'Part', by: (row) => row.kind, show: (row) => row.kind },
      { name: 'Health', show: (row) => html`<${Status} value=${row.Healthy ? 'healthy' : 'unhealthy'} />` },
      { name: 'Says', show: (row) => row.HealthDescription, class: 'wide p2' },
      { name: 'Allocation', class: 'p2', show: (row) => (row.AllocID ? html`<${Link} class="mono"
        to=${paths.alloc(row.AllocID)}>
        ${short(row.AllocID)}<//>` : '') }]} /><//>`;
}

/** @param {{parts: string[]}} props */
export function Storage({ parts }) {
  const [kind, id, space = 'default'] = parts;
  if (kind === 'new') return html`<${NewVolume} />`;
  if (kind === 'volumes' && id !== undefined) return html`<${Volume} key=${`${space}/${id}`} id=${id} space=${space} />`;
  if (kind === 'plugins' && id !== undefined) return html`<${Plugin} key=${id} id=${id} />`;
  return html`<${Lists} />`;
}
