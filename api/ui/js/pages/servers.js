//! Servers: membership, health, votes, and work that takes long.

import { useGet, write } from '../api.js';
import { html, useMemo, useSignal } from '../lib.js';
import { Action, Card, Empty, Failed, Head, Meter, Pairs, Status } from '../parts/basics.js';
import { Table } from '../parts/table.js';
import { connection, useRows, versionOf } from '../store.js';
import { span } from '../words.js';

/** @typedef {Record<string, any>} Row */

export function Servers() {
  useSignal(connection);
  const version = useMemo(() => versionOf('AutopilotConfiguration'), []);
  const health = useGet('/v1/operator/autopilot/health', version, true);
  const own = useGet('/v1/agent/self', undefined, true);
  const work = [...useRows('PendingWork').values()];
  const scheduler = useRows('SchedulerConfiguration').get('scheduler');
  const servers = /** @type {Row[]} */ (health.data?.Servers ?? []);
  const transfer = (/** @type {Row} */ server) => write('POST',
    `/v1/operator/raft/transfer-leadership?id=${server.ID}`);
  return html`<${Head} title="Servers" status=${health.data ? html`<${Status} value=${health.data.Healthy ? 'healthy'
    : 'degraded'} />` : null} />
    <${Failed} error=${health.error} />
    <${Card} title="Members" aside=${health.data ? html`<span class="dim">
      ${health.data.FailureTolerance} may fail</span>` : null}>
      <${Table} label="Servers" rows=${servers} id=${(/** @type {Row} */ row) => row.ID} empty="None is shown."
        columns=${[
        { name: 'Name', by: (row) => row.Name, show: (row) => html`<strong>${row.Name}</strong>` },
        { name: 'Health', show: (row) => html`<${Status} value=${row.Healthy ? 'healthy' : 'unhealthy'} />` },
        { name: 'Role', show: (row) => (row.Leader ? 'leader' : row.Voter ? 'voter' : 'learner') },
        { name: 'Address', show: (row) => html`<span class="mono">${row.Address}</span>`, class: 'p2' },
        { name: 'Log index', show: (row) => row.LastIndex, class: 'num' },
        { name: 'Contact', show: (row) => row.LastContact, class: 'num p2' },
        { name: 'Since', show: (row) => `${span(Date.now() - Date.parse(row.StableSince))}`, class: 'num p3' },
        { name: 'Leadership', show: (row) => (row.Leader || !row.Voter ? '' : html`<${Action} confirm="Let it lead"
          run=${() => transfer(row)}>Make leader<//>`) }]} /><//>
    <${Card} title="Long work">${work.length === 0 ? html`<${Empty}>No long work runs.<//>`
      : html`<div class="body stack">${work.map((row) => {
      const done = row.Done ?? row.Deleted ?? 0;
      return html`<div><strong>${row.Kind ?? 'work'}</strong><${Meter} label="Done" used=${done}
        total=${row.Total ?? done} /></div>`;
    })}</div>`}<//>
    ${scheduler ? html`<${Card} title="Scheduler"><${Pairs} pairs=${[['Algorithm', scheduler.SchedulerAlgorithm],
      ['Memory oversubscription', scheduler.MemoryOversubscriptionEnabled ? 'on' : 'off'],
      ['Registrations', scheduler.RejectJobRegistration ? 'refused' : 'taken'],
      ['Broker', scheduler.PauseEvalBroker ? 'paused' : 'runs']]} /><//>` : null}
    ${own.data ? html`<${Card} title="The server that serves this page"><${Pairs}
      pairs=${[['Name', own.data.member?.Name], ['Region', own.data.config?.Region],
      ['Datacenter', own.data.config?.Datacenter], ['Version', own.data.config?.Version?.Version],
        ['Data directory', own.data.config?.DataDir]]} /><//>` : null}`;
}
