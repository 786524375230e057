//! Parts of a job's page that change how much of it runs: the groups with their counts and the events of scaling, and
//! the form that dispatches a parameterized job.

import { useGet, write } from '../api.js';
import { html, useMemo, useState } from '../lib.js';
import { Action, Bar, Card, Status, Time } from '../parts/basics.js';
import { byStatus, wanted } from '../parts/columns.js';
import { Link, paths } from '../router.js';
import { useRows, versionOf } from '../store.js';

/** @typedef {Record<string, any>} Row */

/** Longest payload of a dispatch, in bytes. */
const PAYLOAD_BYTES_MAX = 16_384;

/** Count of one group, with the bounds of its scaling policy. @param {{job: Row, group: Row}} props */
function Count({ job, group }) {
  const [typed, setTyped] = useState('');
  const set = (/** @type {number} */ count) => write('POST',
    `/v1/job/${encodeURIComponent(job.ID)}/scale?namespace=${encodeURIComponent(job.Namespace)}`,
    { Count: count, Target: { Group: group.Name }, Message: 'scaled on the web page' });
  const wish = typed === '' ? Number.NaN : Number(typed);
  const isCount = Number.isInteger(wish) && wish >= 0 && wish !== group.Count;
  return html`<span class="action">
    <${Action} disabled=${group.Count === 0} run=${() => set(group.Count - 1)}><span aria-label="One less">−</span><//>
    <b>${group.Count}</b><${Action} run=${() => set(group.Count + 1)}><span aria-label="One more">+</span><//>
    <span class="action p2"><input class="small" type="number" min="0" aria-label=${`New count of ${group.Name}`}
      value=${typed} onInput=${(/** @type {any} */ e) => setTyped(e.target.value)} />
    <${Action} disabled=${!isCount} run=${() => set(wish)} done=${() => setTyped('')}>Set<//></span></span>`;
}

/** @param {{job: Row, allocs: Row[]}} props */
export function Groups({ job, allocs }) {
  const now = wanted(allocs);
  const canScale = job.Type !== 'system' && job.Type !== 'sysbatch' && !job.Stop && !job.Periodic
    && !job.ParameterizedJob;
  return html`<${Card} title="Groups"><div class="scroll"><table class="rows" aria-label="Groups"><thead><tr>
    <th scope="col">Group</th><th scope="col" class="count">Allocations</th><th scope="col" class="p2">Tasks</th>
      <th scope="col" class="num">Count</th></tr></thead>
    <tbody>${(job.TaskGroups ?? []).map((/** @type {Row} */ group) => html`<tr key=${group.Name}><td>
      <strong>${group.Name}</strong>${group.Scaling ? html` <small class="dim">${group.Scaling.Min} to
        ${' '}${group.Scaling.Max}</small>` : null}</td>
      <td class="count"><${Bar} label=${group.Name} parts=${byStatus(now.filter((row) =>
        row.TaskGroup === group.Name))} /></td>
      <td class="p2">${group.Tasks.map((/** @type {Row} */ task) => `${task.Name} (${task.Driver})`).join(', ')}</td>
      <td class="num">${canScale ? html`<${Count} job=${job} group=${group} />` : group.Count}</td></tr>`)}
    </tbody></table></div><${ScalingEvents} job=${job} /><//>`;
}

/** Who scaled the job, newest first. @param {{job: Row}} props */
function ScalingEvents({ job }) {
  const got = useGet(`/v1/job/${encodeURIComponent(job.ID)}/scale?namespace=${encodeURIComponent(job.Namespace)}`,
    useMemo(() => versionOf('ScalingEvent'), []));
  const events = Object.entries(/** @type {Record<string, Row>} */ (got.data?.TaskGroups ?? {}))
    .flatMap(([group, state]) => (state.Events ?? []).map((/** @type {Row} */ event) => ({ group, ...event })))
    .sort((a, b) => b.Time - a.Time);
  if (events.length === 0) return null;
  return html`<details class="body"><summary>${events.length} scaling events</summary>
    <ul class="feed flat">${events.map((event) => html`<li key=${`${event.group}/${event.Time}`}>
      <span class="index">${event.group}</span>
      <span class="what">${event.Error ? html`<${Status} value="failed" /> ` : null}${event.Count === null
        || event.Count === undefined ? '' : `${event.PreviousCount} → ${event.Count} `}${event.Message}</span>
      <small><${Time} time=${event.Time} /></small></li>`)}</ul></details>`;
}

/** @param {Uint8Array} bytes */
const base64 = (bytes) => btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''));

/** Form that dispatches a parameterized job. @param {{job: Row}} props */
export function Dispatch({ job }) {
  const { Payload: payload = 'optional', MetaRequired, MetaOptional } = job.ParameterizedJob;
  const required = /** @type {string[]} */ (MetaRequired ?? []);
  const optional = /** @type {string[]} */ (MetaOptional ?? []);
  const [meta, setMeta] = useState(/** @type {Record<string, string>} */ ({}));
  const [text, setText] = useState('');
  const [sent, setSent] = useState(/** @type {string} */ (''));
  const children = useRows('Job');
  const bytes = new TextEncoder().encode(text);
  const lacks = required.filter((key) => (meta[key] ?? '') === '');
  const faults = [...(lacks.length > 0 ? [`${lacks.join(', ')} must have a value`] : []),
    ...(payload === 'required' && text === '' ? ['a payload is required'] : []),
    ...(bytes.length > PAYLOAD_BYTES_MAX ? ['the payload is longer than 16 KiB'] : [])];
  const run = () => write('POST',
    `/v1/job/${encodeURIComponent(job.ID)}/dispatch?namespace=${encodeURIComponent(job.Namespace)}`,
    { Payload: text === '' ? null : base64(bytes),
      Meta: Object.fromEntries(Object.entries(meta).filter(([, value]) => value !== '')) });
  const field = (/** @type {string} */ key, /** @type {boolean} */ must) => html`<label key=${key}>${key}${must
    ? ' (required)' : ''}<input class="mono" required=${must} value=${meta[key] ?? ''}
      onInput=${(/** @type {any} */ e) => setMeta({ ...meta, [key]: e.target.value })} /></label>`;
  return html`<${Card} title="Dispatch" aside=${html`<span class="dim">${faults.join('; ')}</span>
      <${Action} kind="main" run=${run} disabled=${faults.length > 0} done=${(/** @type {Row} */ answer) => {
        setSent(answer.DispatchedJobID);
        setText('');
      }}>Dispatch<//>`}><div class="body form">
    ${required.map((key) => field(key, true))}${optional.map((key) => field(key, false))}
    ${payload === 'forbidden' ? null : html`<label>Payload${payload === 'required' ? ' (required)' : ''}
      <textarea rows="3" spellcheck="false" value=${text} onInput=${(/** @type {any} */ e) =>
        setText(e.target.value)}></textarea></label>`}
    ${sent === '' ? null : html`<p role="status">Dispatched as ${children.has(`${job.Namespace}/${sent}`)
      ? html`<${Link} to=${paths.job({ ID: sent, Namespace: job.Namespace })}>${sent}<//>` : sent}.</p>`}</div><//>`;
}
