//! Allocations: the list, and the page of one: tasks, explanation, logs, files, resources, history.

import { useGet, write } from '../api.js';
import { html, signal, useEffect, useMemo, useState } from '../lib.js';
import { Action, Card, Empty, Failed, Head, Meter, Pairs, Spark, Status, Tabs, Time } from '../parts/basics.js';
import { alloc as columns } from '../parts/columns.js';
import { Explain } from '../parts/explain.js';
import { Files } from '../parts/files.js';
import { History } from '../parts/history.js';
import { Logs } from '../parts/logs.js';
import { Table } from '../parts/table.js';
import { Link, paths } from '../router.js';
import { useList, useRows } from '../store.js';
import { counted, short, size } from '../words.js';

/** @typedef {Record<string, any>} Row */

export function Allocs() {
  const all = useList('Allocation');
  const [status, setStatus] = useState('');
  const [text, setText] = useState('');
  const rows = all.filter((row) => (status === '' || row.ClientStatus === status)
    && (text === '' || row.Name.includes(text) || row.ID.startsWith(text) || (row.NodeName ?? '').includes(text)));
  return html`<${Head} title="Allocations" /><div class="tools"><input class="grow" type="search"
    aria-label="Filter allocations"
      placeholder="Part of a name, id or node" value=${text} onInput=${(/** @type {any} */ e) =>
        setText(e.target.value)} />
      ${['', 'running', 'pending', 'failed', 'lost', 'complete'].map((word) => html`<button type="button"
        aria-pressed=${status === word} onClick=${() => setStatus(word)}>${word === '' ? 'All' : word}</button>`)}
      <span class="dim">${counted(rows.length, 'allocation')}</span></div>
    <section class="card"><${Table} label="Allocations" rows=${rows} id=${(/** @type {Row} */ row) => row.ID}
      sort="Changed" down
      to=${(/** @type {Row} */ row) => paths.alloc(row.ID)} empty="No allocation is here."
      columns=${[columns.id, columns.job, columns.name, columns.status, columns.wanted, columns.node, columns.description, columns.changed]} /></section>`;
}

/** Ticks while a page asks a node for numbers that no event carries. */
function useTicks() {
  const ticks = useMemo(() => signal(0), []);
  useEffect(() => {
    const timer = window.setInterval(() => { ticks.value += 1; }, 2000);
    return () => window.clearInterval(timer);
  }, []);
  return ticks;
}

/** Use of CPU and memory, measured by the node while the page is open. @param {{alloc: Row}} props */
function Resources({ alloc }) {
  const got = useGet(`/v1/client/allocation/${alloc.ID}/stats?namespace=${encodeURIComponent(alloc.Namespace)}`, useTicks(), true);
  const [series, setSeries] = useState(/** @type {{cpu: number[], memory: number[]}} */ ({ cpu: [], memory: [] }));
  const use = got.data?.ResourceUsage;
  useEffect(() => {
    if (!use) return;
    const bytes = use.MemoryStats.RSS || use.MemoryStats.Usage;
    setSeries((/** @type {any} */ old) => ({
      cpu: [...old.cpu, use.CpuStats.TotalTicks].slice(-60), memory: [...old.memory, bytes].slice(-60) }));
  }, [got.data]);
  let cpu = 0;
  let memory = 0;
  for (const task of Object.values(alloc.AllocatedResources?.Tasks ?? {})) {
    cpu += task.Cpu?.CpuShares ?? 0;
    memory += task.Memory?.MemoryMB ?? 0;
  }
  const mhz = series.cpu.at(-1) ?? 0;
  const bytes = series.memory.at(-1) ?? 0;
  if (got.error) return html`<${Card} title="Resources"><${Empty}>The node does not tell: ${got.error.message}<//><//>`;
  return html`<${Card} title="Resources"><div class="body stack">
    <div><h3>CPU</h3><${Spark} values=${series.cpu} max=${cpu} label="CPU over the last two minutes" />
      <${Meter} label="CPU" used=${mhz} total=${cpu} text=${`${Math.round(mhz)} of ${cpu} MHz`} /></div>
    <div><h3>Memory</h3><${Spark} values=${series.memory} max=${memory * 1048576}
      label="Memory over the last two minutes" />
      <${Meter} label="Memory" used=${bytes} total=${memory * 1048576}
        text=${`${size(bytes)} of ${memory} MiB`} /></div></div><//>`;
}

/** @param {{alloc: Row}} props */
function Tasks({ alloc }) {
  const space = `namespace=${encodeURIComponent(alloc.Namespace)}`;
  const states = Object.entries(alloc.TaskStates ?? {});
  if (states.length === 0) return html`<${Card} title="Tasks"><${Empty}>The node has not reported yet.<//><//>`;
  return states.map(([name, state]) => html`<${Card} key=${name} title=${html`Task ${name} <${Status}
    value=${state.Failed ? 'failed' : state.State} />`}
    aside=${html`<span class="dim">${counted(state.Restarts, 'restart')}</span>
      ${state.State === 'running' ? html`<${Action} confirm=${`Restart ${name}`}
        run=${() => write('POST', `/v1/client/allocation/${alloc.ID}/restart?${space}`,
          { TaskName: name })}>Restart<//>` : null}`}>
    <div class="scroll"><table class="rows" aria-label=${`Events of task ${name}`}>
      <tbody>${[...(state.Events ?? [])].reverse().map((event) =>
      html`<tr><td><strong>${event.Type}</strong></td><td class="wide">${event.DisplayMessage || event.Message}</td>
      <td class="num"><${Time} time=${event.Time} /></td></tr>`)}</tbody></table></div><//>`);
}

/** @param {{alloc: Row}} props */
function Summary({ alloc }) {
  const ports = (alloc.AllocatedResources?.Shared?.Ports ?? []).map((/** @type {Row} */ port) => `${port.Label} ${port.HostIP}:${port.Value}`);
  const other = (/** @type {string} */ id) => (id ? html`<${Link} class="mono" to=${paths.alloc(id)}>${short(id)}<//>`
    : '');
  return html`<div class="grid"><div class="c8 stack"><${Explain} alloc=${alloc} brief />
    <${Tasks} alloc=${alloc} /></div>
    <div class="c4 stack"><${Card} title="Facts"><${Pairs} pairs=${[['Wanted', alloc.DesiredStatus],
      ['Node', html`<${Link} to=${paths.node(alloc.NodeID)}>${alloc.NodeName || short(alloc.NodeID)}<//>`],
      ['Evaluation', html`<${Link} class="mono" to=${paths.evaluation(alloc.EvalID)}>${short(alloc.EvalID)}<//>`],
      ['Group', alloc.TaskGroup], ['Created', html`<${Time} time=${alloc.CreateTime} />`],
      ['Changed', html`<${Time} time=${alloc.ModifyTime} />`], ['Replaced', other(alloc.PreviousAllocation)],
      ['Replaced by', other(alloc.NextAllocation)], ['Ports', ports.join(', ')],
      ['Says', alloc.DesiredDescription || alloc.ClientDescription]]} /><//>
    ${alloc.ClientStatus === 'running' ? html`<${Resources} alloc=${alloc} />` : null}</div></div>`;
}

/** @param {{id: string, tab: string}} props */
export function Alloc({ id, tab }) {
  const row = useRows('Allocation').get(id);
  const got = useGet(row ? null : `/v1/allocation/${encodeURIComponent(id)}`);
  const alloc = row ?? got.data;
  if (!alloc) {
    return html`<${Head} title=${short(id)} over=${html`<${Link} to="/allocations">Allocations<//>`} />
      <${Failed} error=${got.error} />
      ${got.error?.status === 404 ? html`<${Explain} alloc=${{ ID: id, Namespace: '*' }} />` : null}`;
  }
  const tabs = /** @type {[string, string][]} */ ([['', 'Overview'], ['explain', 'Explain'], ['logs', 'Logs'],
    ['files', 'Files'], ['history', 'History']]);
  const space = `namespace=${encodeURIComponent(alloc.Namespace)}`;
  return html`<${Head} title=${alloc.Name} status=${html`<${Status} value=${alloc.ClientStatus} />`}
      over=${html`<${Link} to=${paths.job({ ID: alloc.JobID, Namespace: alloc.Namespace })}>
        ${alloc.JobID}<//> · <span class="mono">${id}</span>`}
      aside=${alloc.DesiredStatus === 'run' ? html`<${Action} confirm="Stop and replace it"
        run=${() => write('POST', `/v1/allocation/${id}/stop?${space}`)}>Stop<//>` : null} />
    <${Tabs} label="Parts of the allocation" tabs=${tabs} chosen=${tab} to=${(/** @type {string} */ to) =>
      paths.alloc(id, to)} />
    ${tab === '' ? html`<${Summary} alloc=${alloc} />` : null}
    ${tab === 'explain' ? html`<${Explain} alloc=${alloc} />` : null}
    ${tab === 'logs' ? html`<${Logs} alloc=${alloc} />` : null}
    ${tab === 'files' ? html`<${Files} alloc=${alloc} />` : null}
    ${tab === 'history' ? html`<${History} kind="allocation" id=${id} namespace=${alloc.Namespace}
      topic="Allocation" />` : null}`;
}
