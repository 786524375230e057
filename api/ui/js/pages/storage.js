//! Volumes and their plugins.

import { useGet } from '../api.js';
import { html, useMemo, useSignal } from '../lib.js';
import { Card, Failed, Head, Status } from '../parts/basics.js';
import { Table } from '../parts/table.js';
import { namespace, versionOf } from '../store.js';

/** @typedef {Record<string, any>} Row */

export function Storage() {
  const space = useSignal(namespace);
  const volumes = useGet(`/v1/volumes?type=csi&namespace=${encodeURIComponent(space)}`, useMemo(() =>
    versionOf('CSIVolume'), []));
  const plugins = useGet('/v1/plugins?type=csi', useMemo(() => versionOf('CSIPlugin'), []));
  return html`<${Head} title="Volumes" />
    <${Card} title="Volumes"><${Failed} error=${volumes.error} /><${Table} label="Volumes" rows=${volumes.data ?? []}
      id=${(/** @type {Row} */ row) => `${row.Namespace}/${row.ID}`} empty="No volume is registered." columns=${[
        { name: 'Id', by: (row) => row.ID, show: (row) => html`<strong>${row.ID}</strong>` },
        { name: 'Schedulable', show: (row) => html`<${Status} value=${row.Schedulable ? 'ready' : 'blocked'} />` },
        { name: 'Plugin', show: (row) => row.PluginID }, { name: 'Access', show: (row) =>
          row.AccessMode || '—', class: 'p2' },
        { name: 'Readers', show: (row) => row.CurrentReaders, class: 'num p2' }, { name: 'Writers', show: (row) =>
          row.CurrentWriters, class: 'num p2' }]} /><//>
    <${Card} title="Plugins"><${Failed} error=${plugins.error} /><${Table} label="Plugins" rows=${plugins.data ?? []}
      id=${(/** @type {Row} */ row) => row.ID}
      empty="No plugin runs." columns=${[{ name: 'Id', show: (row) => html`<strong>${row.ID}</strong>` },
        { name: 'Provider', show: (row) => row.Provider },
        { name: 'Healthy nodes', show: (row) => `${row.NodesHealthy} of ${row.NodesExpected}`, class: 'num' },
        { name: 'Healthy controllers', show: (row) => `${row.ControllersHealthy} of ${row.ControllersExpected}`,
          class: 'num p2' }]} /><//>`;
}
