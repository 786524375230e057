//! Allocations: the list, and the page of one: tasks, explanation, logs, files, resources, history.

import { at, useGet, write } from '../api.js';
import { html, useMemo, useSignal, useState } from '../lib.js';
import { Action, Card, Empty, Failed, Head, Pairs, Status, Tabs, Time } from '../parts/basics.js';
import { Chart, usePoints } from '../parts/chart.js';
import { AllocChecks } from '../parts/checks.js';
import { alloc as columns } from '../parts/columns.js';
import { Explain } from '../parts/explain.js';
import { Files } from '../parts/files.js';
import { useMatching } from '../parts/filter.js';
import { History } from '../parts/history.js';
import { Logs } from '../parts/logs.js';
import { Table } from '../parts/table.js';
import { Exec } from '../parts/terminal.js';
import { useTicks } from '../parts/use.js';
import { Link, paths } from '../router.js';
import { useList, useRows } from '../store.js';
import { counted, short, size } from '../words.js';

/** @typedef {Record<string, any>} Row */

export function Allocs() {
  const all = useList('Allocation');
  const [status, setStatus] = useState('');
  const [text, setText] = useState('');
  const { matching, error } = useMatching({ path: '/v1/allocations', topic: 'Allocation', text, id: (row) => row.ID });
  const rows = useMemo(() => all.filter((row) => (status === '' || row.ClientStatus === status) && (matching === null
    ? text === '' || row.Name.includes(text) || row.ID.startsWith(text) || (row.NodeName ?? '').includes(text)
    : matching.has(row.ID))), [all, status, text, matching]);
  return html`<${Head} title="Allocations" /><div class="tools"><input class="grow" type="search"
    aria-label="Filter allocations"
      placeholder='Part of a name, id or node, or a filter: JobID == web' value=${text}
        onInput=${(/** @type {any} */ e) =>
        setText(e.target.value)} />
      ${['', 'running', 'pending', 'failed', 'lost', 'complete'].map((word) => html`<button type="button"
        aria-pressed=${status === word} onClick=${() => setStatus(word)}>${word === '' ? 'All' : word}</button>`)}
      <span class="dim">${counted(rows.length, 'allocation')}</span></div><${Failed} error=${error} />
    <section class="card"><${Table} label="Allocations" rows=${rows} id=${(/** @type {Row} */ row) => row.ID}
      sort="Changed" down
      to=${(/** @type {Row} */ row) => paths.alloc(row.ID)} empty="No allocation is here."
      columns=${[columns.id, columns.job, columns.name, columns.status, columns.wanted, columns.node, columns.description, columns.changed]} /></section>`;
}

/** @param {Record<string, any>} of @param {string} key */
const summed = (of, key) => Object.values(of ?? {}).reduce((sum, task) => sum + (key === 'cpu' ? task.Cpu?.CpuShares ?? 0
  : task.Memory?.MemoryMB ?? 0), 0);

/** Use of CPU and memory, measured by the node while the page is open. @param {{alloc: Row}} props */
function Resources({ alloc }) {
  const got = useGet(`/v1/client/allocation/${alloc.ID}/stats?namespace=${encodeURIComponent(alloc.Namespace)}`,
    useTicks(2000), true);
  const [task, setTask] = useState('');
  const names = Object.keys(alloc.AllocatedResources?.Tasks ?? {});
  const read = () => ['', ...names].flatMap((name) => {
    const use = name === '' ? got.data?.ResourceUsage : got.data?.Tasks?.[name]?.ResourceUsage;
    return [use?.CpuStats?.TotalTicks ?? null, use?.MemoryStats?.RSS || use?.MemoryStats?.Usage || null];
  });
  const { times, values } = usePoints(got.data, read);
  const from = 2 * (names.indexOf(task) + 1);
  const tasks = task === '' ? alloc.AllocatedResources?.Tasks : { [task]: alloc.AllocatedResources?.Tasks?.[task] };
  if (got.error) return html`<${Card} title="Resources"><${Empty}>The node does not tell: ${got.error.message}<//><//>`;
  return html`<${Card} title="Resources" aside=${names.length < 2 ? null : html`<select aria-label="Resources of"
      value=${task} onChange=${(/** @type {any} */ e) => setTask(e.target.value)}><option value="">all tasks</option>
      ${names.map((name) => html`<option value=${name}>${name}</option>`)}</select>`}><div class="body stack">
    <${Chart} label="CPU" times=${times} lines=${[{ name: 'CPU', values: values[from] ?? [],
      show: (/** @type {number} */ mhz) => `${Math.round(mhz)} MHz`, of: summed(tasks, 'cpu') }]} />
    <${Chart} label="Memory" times=${times} lines=${[{ name: 'memory', values: values[from + 1] ?? [], show: size,
      of: summed(tasks, 'memory') * 1048576 }]} /></div><//>`;
}

/** Signals of the page's menu; a driver may refuse one. */
const SIGNALS = ['SIGHUP', 'SIGINT', 'SIGTERM', 'SIGUSR1', 'SIGUSR2', 'SIGQUIT', 'SIGKILL'];

/** @param {{alloc: Row, task: string}} props */
function Signal({ alloc, task }) {
  const [name, setName] = useState(SIGNALS[0]);
  return html`<span class="action"><select aria-label=${`Signal for ${task}`} value=${name}
      onChange=${(/** @type {any} */ e) => setName(e.target.value)}>${SIGNALS.map((one) =>
      html`<option value=${one}>${one}</option>`)}</select>
    <${Action} confirm=${`Send ${name}`} run=${() => write('POST',
      `/v1/client/allocation/${alloc.ID}/signal?namespace=${encodeURIComponent(alloc.Namespace)}`,
      { Task: task, Signal: name })}>Signal<//></span>`;
}

/** @param {{alloc: Row}} props */
function Tasks({ alloc }) {
  const space = `namespace=${encodeURIComponent(alloc.Namespace)}`;
  const states = Object.entries(alloc.TaskStates ?? {});
  if (states.length === 0) return html`<${Card} title="Tasks"><${Empty}>The node has not reported yet.<//><//>`;
  return states.map(([name, state]) => html`<${Card} key=${name} title=${html`Task ${name} <${Status}
    value=${state.Failed ? 'failed' : state.State} />`}
    aside=${html`<span class="dim">${counted(state.Restarts, 'restart')}</span>
      ${state.State === 'running' ? html`<${Signal} alloc=${alloc} task=${name} />
        <${Action} confirm=${`Restart ${name}`}
        run=${() => write('POST', `/v1/client/allocation/${alloc.ID}/restart?${space}`,
          { TaskName: name })}>Restart<//>` : null}`}>
    <div class="scroll"><table class="rows" aria-label=${`Events of task ${name}`}>
      <tbody>${[...(state.Events ?? [])].reverse().map((event) =>
      html`<tr><td><strong>${event.Type}</strong></td><td class="wide">${event.DisplayMessage || event.Message}</td>
      <td class="num"><${Time} time=${event.Time} /></td></tr>`)}</tbody></table></div><//>`);
}

/** @param {{alloc: Row}} props */
function Summary({ alloc }) {
  const past = useSignal(at) !== null;
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
    ${alloc.ClientStatus === 'running' && !past ? html`<${Resources} alloc=${alloc} />` : null}
    <${AllocChecks} alloc=${alloc} /></div></div>`;
}

/** Parts of an allocation's page. */
export const TABS = /** @type {[string, string][]} */ ([['', 'Overview'], ['explain', 'Explain'], ['logs', 'Logs'],
  ['files', 'Files'], ['exec', 'Exec'], ['history', 'History']]);

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
  const space = `namespace=${encodeURIComponent(alloc.Namespace)}`;
  return html`<${Head} title=${alloc.Name} status=${html`<${Status} value=${alloc.ClientStatus} />`}
      over=${html`<${Link} to=${paths.job({ ID: alloc.JobID, Namespace: alloc.Namespace })}>
        ${alloc.JobID}<//> · <span class="mono">${id}</span>`}
      aside=${alloc.DesiredStatus === 'run' ? html`${alloc.ClientStatus === 'running' ? html`<${Action}
          confirm="Restart all tasks" run=${() => write('POST', `/v1/client/allocation/${id}/restart?${space}`,
            { AllTasks: true })}>Restart<//>` : null}
        <${Action} confirm="Stop and replace it"
        run=${() => write('POST', `/v1/allocation/${id}/stop?${space}`)}>Stop<//>` : null} />
    <${Tabs} label="Parts of the allocation" tabs=${TABS} chosen=${tab} to=${(/** @type {string} */ to) =>
      paths.alloc(id, to)} />
    ${tab === '' ? html`<${Summary} alloc=${alloc} />` : null}
    ${tab === 'explain' ? html`<${Explain} alloc=${alloc} />` : null}
    ${tab === 'logs' ? html`<${Logs} alloc=${alloc} />` : null}
    ${tab === 'files' ? html`<${Files} alloc=${alloc} />` : null}
    ${tab === 'exec' ? html`<${Exec} alloc=${alloc} />` : null}
    ${tab === 'history' ? html`<${History} kind="allocation" id=${id} namespace=${alloc.Namespace}
      topic="Allocation" />` : null}`;
}
