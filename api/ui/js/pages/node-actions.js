//! What one may do to a node: drain it with a deadline, make it ineligible, purge it, set its dynamic metadata; and the
//! use of its machine, measured while the page is open.

import { at, useGet, write } from '../api.js';
import { html, useEffect, useSignal, useState } from '../lib.js';
import { Action, Card, Empty } from '../parts/basics.js';
import { Chart, usePoints } from '../parts/chart.js';
import { useTicks } from '../parts/use.js';
import { go } from '../router.js';
import { counted, size, span } from '../words.js';

/** @typedef {Record<string, any>} Row */

const NS_PER_MINUTE = 60e9;

/** @param {{node: Row, left: number}} props */
export function Drain({ node, left }) {
  const base = `/v1/node/${node.ID}`;
  const drain = node.DrainStrategy;
  const [stays, setStays] = useState(false);
  return html`<div class="note warn pair"><span>Draining${drain.Deadline > 0 ? ` with a deadline of ${
    span(drain.Deadline / 1e6)}` : drain.Deadline < 0 ? ' at once' : ' without a deadline'}${
    drain.IgnoreSystemJobs ? ', system jobs stay' : ''}: ${counted(left, 'allocation')} still here.</span>
    <label class="check"><input type="checkbox" checked=${stays} onChange=${(/** @type {any} */ e) =>
      setStays(e.target.checked)} /> stay ineligible</label>
    <${Action} run=${() => write('POST', `${base}/drain`, { DrainSpec: null, MarkEligible: !stays })}>End the drain<//>
    </div>`;
}

/** Form that begins a drain. @param {{node: Row, close: () => void}} props */
export function DrainForm({ node, close }) {
  const [deadline, setDeadline] = useState('60');
  const [kind, setKind] = useState('deadline');
  const [ignore, setIgnore] = useState(false);
  const [why, setWhy] = useState('');
  const nanos = kind === 'force' ? -1 : kind === 'none' ? 0 : Math.round(Number(deadline) * NS_PER_MINUTE);
  const run = () => write('POST', `/v1/node/${node.ID}/drain`, {
    DrainSpec: { Deadline: nanos, IgnoreSystemJobs: ignore }, Meta: why === '' ? null : { message: why } });
  const choice = (/** @type {string} */ value, /** @type {string} */ words) => html`<label
    class="check"><input type="radio"
    name="drain" checked=${kind === value} onChange=${() => setKind(value)} /> ${words}</label>`;
  return html`<${Card} title="Drain" aside=${html`<button type="button" onClick=${close}>Cancel</button>
      <${Action} kind="main" confirm="Move its allocations away" run=${run} done=${close}
        disabled=${kind === 'deadline' && !(Number(deadline) > 0)}>Drain<//>`}>
    <div class="body form"><fieldset><legend>What has not moved by then is stopped</legend>
      <span class="pair">${choice('deadline', 'after this many minutes:')}<input class="small" type="number" min="1"
        aria-label="Minutes" value=${deadline} onFocus=${() => setKind('deadline')}
        onInput=${(/** @type {any} */ e) => setDeadline(e.target.value)} /></span>
      ${choice('none', 'never: wait as long as it takes')}${choice('force', 'now')}</fieldset>
    <label class="check"><input type="checkbox" checked=${ignore} onChange=${(/** @type {any} */ e) =>
      setIgnore(e.target.checked)} /> leave system jobs on the node</label>
    <label>Message, kept with the drain <input value=${why} onInput=${(/** @type {any} */ e) =>
      setWhy(e.target.value)} /></label></div><//>`;
}

/** @param {{node: Row, drain: () => void}} props */
export function Doing({ node, drain }) {
  const base = `/v1/node/${node.ID}`;
  const isEligible = node.SchedulingEligibility === 'eligible';
  if (node.Status === 'down') {
    return html`<${Action} confirm="Forget this node" run=${() => write('POST', `${base}/purge`)}
      done=${() => go('/clients')}>Purge<//>`;
  }
  if (node.DrainStrategy) return null;
  return html`<${Action} run=${async () => drain()}>Drain…<//>
    <${Action} run=${() => write('POST', `${base}/eligibility`, { Eligibility: isEligible ? 'ineligible'
      : 'eligible' })}>${isEligible ? 'Make ineligible' : 'Make eligible'}<//>`;
}

/** Use of the machine, asked of the node while the page is open. @param {{node: Row}} props */
export function Host({ node }) {
  const past = useSignal(at) !== null;
  const got = useGet(past || node.Status !== 'ready' ? null : `/v1/client/stats?node_id=${node.ID}`, useTicks(3000),
    true);
  const disk = got.data?.AllocDirStats;
  const { times, values } = usePoints(got.data, () => [got.data.CPUTicksConsumed ?? null,
    got.data.Memory?.Used ?? null, disk?.Used ?? null]);
  if (past || node.Status !== 'ready') return null;
  if (got.error) return html`<${Card} title="Machine"><${Empty}>The node does not tell: ${got.error.message}<//><//>`;
  const mhz = node.NodeResources?.Cpu?.CpuShares ?? 0;
  return html`<${Card} title="Machine" aside=${got.data ? html`<span class="dim">up for
      ${' '}${span(got.data.Uptime * 1000)}</span>` : null}><div class="body stack">
    <${Chart} label="CPU" times=${times} lines=${[{ name: 'CPU', values: values[0] ?? [], of: mhz,
      show: (/** @type {number} */ value) => `${Math.round(value)} MHz` }]} />
    <${Chart} label="Memory" times=${times} lines=${[{ name: 'memory', values: values[1] ?? [], show: size,
      of: got.data?.Memory?.Total ?? 0 }]} />
    <${Chart} label="Disk of allocations" times=${times} lines=${[{ name: 'disk', values: values[2] ?? [], show: size,
      of: disk?.Size ?? 0 }]} /></div><//>`;
}

/** Metadata that can be changed while the node runs. @param {{node: Row}} props */
export function Metadata({ node }) {
  const past = useSignal(at) !== null;
  const [key, setKey] = useState('');
  const [value, setValue] = useState('');
  const meta = Object.entries(/** @type {Record<string, string>} */ (node.Meta ?? {})).sort();
  const set = (/** @type {string} */ name, /** @type {string | null} */ to) => write('POST',
    `/v1/client/metadata?node_id=${node.ID}`, { NodeID: node.ID, Meta: { [name]: to } });
  useEffect(() => { setKey(''); setValue(''); }, [node.ID]);
  return html`<${Card} title="Metadata"><div class="body stack">
    ${meta.length === 0 ? html`<p class="dim">None.</p>` : html`<ul class="tree">${meta.map(([name, of]) => html`
      <li key=${name} class="pair"><span class="fields"><span class="path">${name}</span> ${of}</span>
        ${past ? null : html`<${Action} kind="quiet" confirm=${`Remove ${name}`} run=${() => set(name, null)}>
          <span aria-label=${`Remove ${name}`}>✕</span><//>`}</li>`)}</ul>`}
    ${past ? null : html`<div class="tools"><input class="mono" aria-label="Key of metadata" placeholder="key"
      value=${key} onInput=${(/** @type {any} */ e) => setKey(e.target.value)} />
      <input class="mono" aria-label="Value of metadata" placeholder="value" value=${value}
        onInput=${(/** @type {any} */ e) => setValue(e.target.value)} />
      <${Action} disabled=${key === ''} run=${() => set(key, value)} done=${() => { setKey(''); setValue(''); }}>
        Set<//></div>`}</div><//>`;
}
