//! Servers: membership, health and votes, long work, settings, snapshots and metrics. Most parts are in `servers/`.

import { ApiError, at, useGet, write } from '../api.js';
import { html, useMemo, useSignal } from '../lib.js';
import { Action, Card, Empty, Failed, Head, Meter, Pairs, Status, Tabs } from '../parts/basics.js';
import { Table } from '../parts/table.js';
import { versionOf } from '../store.js';
import { actorWords, counted, span } from '../words.js';
import { Metrics } from './servers/metrics.js';
import { Autopilot, Scheduler } from './servers/settings.js';
import { Snapshot } from './servers/snapshot.js';

/** @typedef {Record<string, any>} Row */

function Members() {
  const isPast = useSignal(at) !== null;
  const version = useMemo(() => versionOf('AutopilotConfiguration'), []);
  const health = useGet('/v1/operator/autopilot/health', version, true);
  const raft = useGet('/v1/operator/raft/configuration', version, true);
  const healthy = new Map((health.data?.Servers ?? []).map((/** @type {Row} */ server) => [server.ID, server]));
  const peers = /** @type {Row[]} */ (raft.data?.Servers ?? health.data?.Servers ?? []);
  const of = (/** @type {Row} */ peer) => /** @type {Row} */ (healthy.get(peer.ID) ?? {});
  const name = (/** @type {Row} */ peer) => of(peer).Name ?? peer.Node ?? peer.Name;
  const transfer = (/** @type {Row} */ peer) => write('POST', `/v1/operator/raft/transfer-leadership?id=${peer.ID}`);
  const remove = (/** @type {Row} */ peer) => write('DELETE', `/v1/operator/raft/peer?id=${peer.ID}`);
  return html`<${Failed} error=${health.error?.denied ? health.error : null} />
    ${isPast ? html`<div class="note">Members, health and long work are those of the present: the log does not have them.</div>`
      : null}
    <${Card} title="Members" aside=${health.data ? html`<${Status}
      value=${health.data.Healthy ? 'healthy' : 'degraded'} />
      <span class="dim">${counted(health.data.FailureTolerance, 'server')} may fail</span>` : null}>
    ${health.error && !(health.error instanceof ApiError && health.error.denied) ? html`<${Failed} error=${health.error} />` : null}
    <${Table} label="Servers" rows=${peers} id=${(/** @type {Row} */ row) => row.ID} empty="None is shown." columns=${[
      { name: 'Name', by: name, show: (row) => html`<strong>${name(row)}</strong>` },
      { name: 'Health', show: (row) => (of(row).Healthy === undefined ? '—' : html`<${Status}
        value=${of(row).Healthy ? 'healthy' : 'unhealthy'} />`) },
      { name: 'Role', show: (row) => (row.Leader ? 'leader' : row.Voter ? 'voter' : 'learner') },
      { name: 'Address', show: (row) => html`<span class="mono">${row.Address}</span>`, class: 'p2' },
      { name: 'Log index', show: (row) => of(row).LastIndex ?? '', class: 'num' },
      { name: 'Term', show: (row) => of(row).LastTerm ?? '', class: 'num p3' },
      { name: 'Contact', show: (row) => of(row).LastContact ?? '', class: 'num p2' },
      { name: 'Since', class: 'num p3', show: (row) => (of(row).StableSince
        ? span(Date.now() - Date.parse(of(row).StableSince)) : '') },
      { name: 'Actions', class: 'num', show: (row) => (row.Leader ? '' : html`${row.Voter ? html`<${Action}
        confirm="Let it lead" run=${() => transfer(row)}>Make leader<//>` : null}
        <${Action} confirm="Remove it from the cluster" run=${() => remove(row)}>Remove<//>`) }]} /><//>`;
}

function LongWork() {
  const got = useGet('/v1/operator/pending-work?stale', useMemo(() => versionOf('PendingWork'), []), true);
  const rows = /** @type {Row[]} */ (got.data ?? []);
  return html`<${Card} title="Long work">${got.error ? html`<${Failed} error=${got.error} />`
    : rows.length === 0 ? html`<${Empty}>No long work runs.<//>`
      : html`<div class="body stack">${[...rows].reverse().map((row) => html`<div key=${`${row.Kind}${row.ID}`}>
      <span class="pair"><strong>${row.Kind}</strong> <${Status} value=${row.Status ?? 'running'} />
        <span class="dim">${row.StatusDescription}${row.Actor ? ` by ${actorWords(row.Actor)}` : ''}</span>
        ${row.Status === 'running' && row.ID > 0 ? html`<${Action} confirm="Stop this work" run=${() => write('DELETE',
          `/v1/operator/pending-work/${row.ID}`)}>Stop<//>` : null}</span>
      ${row.Filter ? html`<div class="mono dim">${row.Filter}</div>` : null}
      <${Meter} label="Looked at" used=${row.Looked ?? 0} total=${Math.max(row.Total ?? 0, row.Looked ?? 0, 1)}
        text=${`${row.Looked ?? 0} of ${row.Total ?? 0} looked at${row.Deleted === undefined ? ''
          : `, ${row.Deleted} deleted`}`} /></div>`)}</div>`}<//>`;
}

function Own() {
  const own = useGet('/v1/agent/self', undefined, true);
  if (!own.data) return null;
  const { config, member, stats } = own.data;
  const raft = stats?.raft ?? {};
  return html`<${Card} title="The server that serves this page"><${Pairs} pairs=${[['Name', member?.Name],
    ['Region', config?.Region], ['Datacenter', config?.Datacenter], ['Version', config?.Version?.Version],
    ['Data directory', config?.DataDir], ['State', raft.state], ['Term', raft.term], ['Last index', raft.last_log_index],
    ['Applied', raft.applied_index], ['Committed', raft.commit_index],
    ['Last snapshot', raft.last_snapshot_index]]} /><//>`;
}

const TABS = /** @type {[string, string][]} */ ([['', 'Overview'], ['settings', 'Settings'], ['snapshot', 'Snapshot'],
  ['metrics', 'Metrics']]);

/** @param {{parts: string[]}} props */
export function Servers({ parts }) {
  const [tab = ''] = parts;
  return html`<${Head} title="Servers" />
    <${Tabs} label="Parts of the servers" tabs=${TABS} chosen=${tab} to=${(/** @type {string} */ to) =>
      `/servers${to === '' ? '' : `/${to}`}`} />
    ${tab === '' ? html`<${Members} /><${LongWork} /><${Own} />` : null}
    ${tab === 'settings' ? html`<div class="grid"><div class="c6"><${Scheduler} /></div><div
      class="c6"><${Autopilot} /></div></div>` : null}
    ${tab === 'snapshot' ? html`<${Snapshot} />` : null}${tab === 'metrics' ? html`<${Metrics} />` : null}`;
}
