//! Overview: health of servers, nodes, jobs and allocations, what is blocked and why, and the newest events.

import { useGet } from '../api.js';
import { html, useMemo, useSignal } from '../lib.js';
import { Bar, Card, Empty, Head, Meter, Spark, Status, Time } from '../parts/basics.js';
import { byStatus, wanted } from '../parts/columns.js';
import { FeedList } from '../parts/feed.js';
import { nodeUse } from '../parts/use.js';
import { Link, paths } from '../router.js';
import { feed, rate, useComputed, useList, useRows, versionOf } from '../store.js';
import { counted, placementWords } from '../words.js';

/** @typedef {Record<string, any>} Row */

/** @param {{to: string, title: string, big: any, of?: any, children?: any}} props */
function Tile({ to, title, big, of, children }) {
  return html`<${Link} class="tile" to=${to}><h2>${title}</h2><div class="big">${big} <small>${of}</small></div>
    <div class="under">${children}</div><//>`;
}

function Servers() {
  const { data, error } = useGet('/v1/operator/autopilot/health', versionOf('AutopilotConfiguration'), true);
  const servers = data?.Servers ?? [];
  const healthy = servers.filter((/** @type {Row} */ server) => server.Healthy).length;
  const leader = servers.find((/** @type {Row} */ server) => server.Leader);
  return html`<${Tile} to="/servers" title="Servers" big=${error ? '—' : healthy}
    of=${data ? `of ${servers.length} healthy` : ''}>
    ${leader ? `${leader.Name} leads` : error ? 'not shown to this token' : ''}<//>`;
}

function NodesTile() {
  const nodes = [...useRows('Node').values()];
  const ready = nodes.filter((node) => node.Status === 'ready').length;
  const counts = ['ready', 'initializing', 'disconnected', 'down'].map((name) => (
    { name, count: nodes.filter((node) => node.Status === name).length }));
  return html`<${Tile} to="/clients" title="Nodes" big=${ready} of=${`of ${nodes.length} ready`}>
    <${Bar} label="Nodes" parts=${counts} /><//>`;
}

function JobsTile() {
  const jobs = useList('Job');
  const counts = ['running', 'pending', 'dead'].map((name) => (
    { name, count: jobs.filter((job) => job.Status === name).length }));
  return html`<${Tile} to="/jobs" title="Jobs" big=${counts[0].count} of=${`of ${jobs.length} running`}>
    <${Bar} label="Jobs" parts=${counts} /><//>`;
}

function AllocsTile() {
  const allocs = useList('Allocation');
  const now = useMemo(() => byStatus(wanted(allocs)), [allocs]);
  const running = now.find(({ name }) => name === 'running')?.count ?? 0;
  return html`<${Tile} to="/allocations" title="Allocations" big=${running} of="running">
    <${Bar} label="Allocations" parts=${now} /><//>`;
}

/** Evaluations that wait for room, one a job. */
function Blocked() {
  const evals = useList('Evaluation').filter((row) => row.Status === 'blocked');
  if (evals.length === 0) return html`<${Card} title="Blocked"><${Empty}>Everything found its place.<//><//>`;
  return html`<${Card} title="Blocked" aside=${html`<span class="dim">${counted(evals.length, 'evaluation')}</span>`}>
    <div class="body stack">${evals.slice(0, 8).map((row) => html`<div key=${row.ID}>
      <${Link} to=${paths.job({ ID: row.JobID, Namespace: row.Namespace })}><strong>${row.JobID}</strong><//>
      ${' '}<span class="dim">since <${Time} time=${row.CreateTime} /></span>
      <div>${Object.entries(row.FailedTGAllocs ?? {}).map(([group, metric]) =>
        placementWords(group, /** @type {Row} */ (metric)).join(' '))}</div></div>`)}
    ${evals.length > 8 ? html`<${Link} to="/evaluations">and ${evals.length - 8} more<//>` : null}</div><//>`;
}

/** Allocations that failed or were lost, newest first. */
function Trouble() {
  const rows = useList('Allocation').filter((row) => ['failed', 'lost', 'unknown'].includes(row.ClientStatus))
    .sort((a, b) => b.ModifyTime - a.ModifyTime).slice(0, 8);
  return html`<${Card} title="Failed lately">${rows.length === 0 ? html`<${Empty}>No allocation failed.<//>`
    : html`<div class="scroll"><table class="rows" aria-label="Failed allocations">
      <tbody>${rows.map((row) => html`<tr key=${row.ID}>
      <td><${Link} to=${paths.alloc(row.ID, 'explain')}>${row.Name}<//></td><td><${Status}
        value=${row.ClientStatus} /></td>
      <td class="p2 dim">${row.ClientDescription}</td><td class="num"><${Time} time=${row.ModifyTime} /></td></tr>`)}
      </tbody></table></div>`}<//>`;
}

function Room() {
  const nodes = [...useRows('Node').values()].filter((node) => node.Status === 'ready');
  const use = useComputed('Allocation', nodeUse);
  const total = { cpu: 0, memory: 0 };
  const used = { cpu: 0, memory: 0 };
  for (const node of nodes) {
    total.cpu += node.NodeResources?.Cpu?.CpuShares ?? 0;
    total.memory += node.NodeResources?.Memory?.MemoryMB ?? 0;
    used.cpu += use.get(node.ID)?.cpu ?? 0;
    used.memory += use.get(node.ID)?.memory ?? 0;
  }
  return html`<${Card} title="Reserved on ready nodes"><div class="body stack">
    <div><h3>CPU</h3><${Meter} label="CPU" used=${used.cpu} total=${total.cpu}
      text=${`${used.cpu} of ${total.cpu} MHz`} /></div>
    <div><h3>Memory</h3><${Meter} label="Memory" used=${used.memory} total=${total.memory}
      text=${`${used.memory} of ${total.memory} MiB`} /></div></div><//>`;
}

/** Span of the counts below the line of events. */
const LATELY_MS = 60_000;

function Rate() {
  const values = useSignal(rate);
  const arrived = useSignal(feed);
  /** @type {Map<string, number>} */
  const topics = new Map();
  for (const { topic, seen } of arrived) {
    if (Date.now() - seen > LATELY_MS) break;
    topics.set(topic, (topics.get(topic) ?? 0) + 1);
  }
  const words = [...topics].sort((a, b) => b[1] - a[1]).slice(0, 4).map(([topic, count]) => `${count} ${topic}`);
  const last = values.slice(-10).reduce((sum, value) => sum + value, 0) / 10;
  return html`<${Card} title="Events" aside=${html`<span class="dim">${last.toFixed(1)} a second</span>`}>
    <div class="body"><${Spark} values=${values}
      label=${`${last.toFixed(1)} events a second in the last ten seconds`} />
      <small class="dim">${words.length === 0 ? 'None in the last minute.' : `In the last minute: ${words.join(', ')}.`}</small>
    </div><//>`;
}

export function Overview() {
  return html`<${Head} title="Overview" aside=${html`<${Link} class="button" to="/jobs/run">Run a job<//>`} />
    <div class="tiles"><${Servers} /><${NodesTile} /><${JobsTile} /><${AllocsTile} /></div>
    <div class="grid"><div class="c7 stack"><${Blocked} /><${Trouble} /></div>
      <div class="c5 stack"><${Room} /><${Rate} />
        <${Card} title="Newest events" aside=${html`<${Link} to="/events">All events<//>`}>
          <${FeedList} count=${14} /><//></div></div>`;
}
