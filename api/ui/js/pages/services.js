//! Services that allocations announce: the list, and the instances of one, with the health that their nodes found.

import { at, get, useGet, write } from '../api.js';
import { html, useEffect, useMemo, useSignal, useState } from '../lib.js';
import { Action, Card, Empty, Failed, Head, Status } from '../parts/basics.js';
import { Table } from '../parts/table.js';
import { Link, paths } from '../router.js';
import { namespace, useRows, versionOf } from '../store.js';
import { counted, short } from '../words.js';

/** @typedef {Record<string, any>} Row */

const part = encodeURIComponent;
/** @param {string} name @param {string} space */
const pathOf = (name, space) => `/services/${part(name)}/${part(space)}`;

/**
 * Results of the checks of these allocations, by allocation; asked of their nodes when an allocation changes.
 * @param {Row[]} rows
 * @returns {Map<string, Row[]>}
 */
function useChecks(rows) {
  const past = useSignal(at) !== null;
  const allocs = useRows('Allocation');
  const [found, set] = useState(/** @type {Map<string, Row[]>} */ (new Map()));
  const ids = [...new Set(rows.map((row) => row.AllocID))].slice(0, 50);
  const key = ids.map((id) => `${id}${allocs.get(id)?.ModifyIndex ?? ''}`).join();
  useEffect(() => {
    if (past) return undefined;
    const abort = new AbortController();
    void Promise.all(ids.map(async (id) => {
      try {
        const space = rows.find((row) => row.AllocID === id)?.Namespace;
        const got = await get(`/v1/client/allocation/${id}/checks?namespace=${part(space)}`, null, abort.signal);
        return /** @type {[string, Row[]]} */ ([id, Object.values(got ?? {})]);
      } catch {
        return /** @type {[string, Row[]]} */ ([id, []]);
      }
    })).then((all) => { if (!abort.signal.aborted) set(new Map(all)); });
    return () => abort.abort();
  }, [key, past]);
  return past ? new Map() : found;
}

/** @param {{checks: Row[]}} props */
function Health({ checks }) {
  if (checks.length === 0) return html`<span class="dim">—</span>`;
  const failing = checks.filter((check) => check.Status === 'failure');
  if (failing.length > 0) return html`<span title=${failing.map((check) => check.Output).join('\n')}>
    <${Status} value="failing" /> ${failing.map((check) => check.Check).join(', ')}</span>`;
  return html`<${Status} value=${checks.every((check) => check.Status === 'success') ? 'passing' : 'pending'} />`;
}

/** @param {{name: string, space: string}} props */
function Instances({ name, space }) {
  const version = useMemo(() => versionOf('Service'), []);
  const path = `/v1/service/${part(name)}`;
  const got = useGet(`${path}?namespace=${part(space)}`, version);
  const rows = /** @type {Row[]} */ (got.data ?? []);
  const checks = useChecks(rows);
  return html`<${Head} title=${name} over=${html`<${Link} to="/services">Services<//> · ${space}`} />
    <${Failed} error=${got.error} /><section class="card"><${Table} label=${name} rows=${rows}
      id=${(/** @type {Row} */ row) => row.ID} empty="No instance." columns=${[
      { name: 'Address', by: (row) => row.Address, show: (row) => html`<span class="mono">
        ${row.Address}${row.Port > 0 ? `:${row.Port}` : ''}</span>` },
      { name: 'Checks', show: (row) => html`<${Health} checks=${(checks.get(row.AllocID) ?? []).filter((check) =>
        check.Service === name)} />` },
      { name: 'Job', show: (row) => html`<${Link} to=${paths.job({ ID: row.JobID,
        Namespace: row.Namespace })}>${row.JobID}<//>` },
      { name: 'Allocation', show: (row) => html`<${Link} class="mono" to=${paths.alloc(row.AllocID)}>
        ${short(row.AllocID)}<//>` },
      { name: 'Tags', show: (row) => (row.Tags ?? []).join(', '), class: 'p2' },
      { name: 'Registration', class: 'num p3', show: (row) => html`<${Action} confirm="Delete it"
        run=${() => write('DELETE', `${path}/${part(row.ID)}?namespace=${part(space)}`)}>Delete<//>` }]} /></section>`;
}

/** @param {{parts: string[]}} props */
export function Services({ parts }) {
  const space = useSignal(namespace);
  const version = useMemo(() => versionOf('Service'), []);
  const [name, of] = parts;
  const got = useGet(name === undefined ? `/v1/services?namespace=${part(space)}` : null, version);
  const registered = useRows('Service');
  const [text, setText] = useState('');
  if (name !== undefined) return html`<${Instances} key=${`${of}/${name}`} name=${name} space=${of ?? 'default'} />`;
  /** Instances by namespace and name, of the stream; a past state does not have them. @type {Map<string, number>} */
  const counts = new Map();
  for (const row of registered.values()) {
    const key = `${row.Namespace}/${row.ServiceName}`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  const rows = /** @type {Row[]} */ (got.data ?? []).flatMap((one) =>
    (one.Services ?? []).map((/** @type {Row} */ service) => ({ ...service, Namespace: one.Namespace })))
    .filter((row) => row.ServiceName.includes(text));
  const to = (/** @type {Row} */ row) => pathOf(row.ServiceName, row.Namespace);
  return html`<${Head} title="Services" /><${Failed} error=${got.error} />
    <div class="tools"><input class="grow" type="search" aria-label="Filter services" placeholder="Part of a name"
      value=${text} onInput=${(/** @type {any} */ e) => setText(e.target.value)} />
      <span class="dim">${counted(rows.length, 'service')}</span></div>
    <section class="card"><${Table} label="Services" rows=${rows} sort="Name" to=${to}
      id=${(/** @type {Row} */ row) => `${row.Namespace}/${row.ServiceName}`} columns=${[
        { name: 'Name', by: (row) => row.ServiceName, show: (row) => html`<${Link} to=${to(row)}>
          <strong>${row.ServiceName}</strong><//>` },
        { name: 'Namespace', by: (row) => row.Namespace, show: (row) => row.Namespace, class: 'p2' },
        { name: 'Tags', show: (row) => (row.Tags ?? []).join(', '), class: 'wide' },
        { name: 'Instances', class: 'num', show: (row) => counts.get(`${row.Namespace}/${row.ServiceName}`) ?? '' }]}
      empty=${got.loading ? 'Reading…' : 'No service is registered with Songline.'} /></section>`;
}

/** Services of one job. @param {{id: string, space: string}} props */
export function JobServices({ id, space }) {
  const got = useGet(`/v1/job/${part(id)}/services?namespace=${part(space)}`, useMemo(() => versionOf('Service'), []));
  const rows = /** @type {Row[]} */ (got.data ?? []);
  const checks = useChecks(rows);
  if (got.error) return html`<${Failed} error=${got.error} />`;
  return html`<${Card} title="Services">${rows.length === 0 ? html`<${Empty}>${got.loading ? 'Reading…'
    : 'No service of this job is registered with Songline.'}<//>` : html`<${Table} label="Services" rows=${rows}
      id=${(/** @type {Row} */ row) => row.ID} columns=${[
      { name: 'Name', by: (row) => row.ServiceName, show: (row) => html`<${Link}
        to=${pathOf(row.ServiceName, row.Namespace)}><strong>${row.ServiceName}</strong><//>` },
      { name: 'Address', show: (row) => html`<span class="mono">${row.Address}${row.Port > 0 ? `:${row.Port}`
        : ''}</span>` },
      { name: 'Checks', show: (row) => html`<${Health} checks=${(checks.get(row.AllocID) ?? []).filter((check) =>
        check.Service === row.ServiceName)} />` },
      { name: 'Allocation', class: 'p2', show: (row) => html`<${Link} class="mono" to=${paths.alloc(row.AllocID)}>
        ${short(row.AllocID)}<//>` }]} />`}<//>`;
}
