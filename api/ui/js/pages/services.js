//! Services that allocations announce, with addresses.

import { useGet } from '../api.js';
import { html, useMemo, useSignal } from '../lib.js';
import { Card, Empty, Failed, Head } from '../parts/basics.js';
import { Table } from '../parts/table.js';
import { Link, paths } from '../router.js';
import { namespace, versionOf } from '../store.js';
import { counted, short } from '../words.js';

/** @typedef {Record<string, any>} Row */

/** @param {{name: string, space: string, version: {value: number}}} props */
function Instances({ name, space, version }) {
  const got = useGet(`/v1/service/${encodeURIComponent(name)}?namespace=${encodeURIComponent(space)}`, version);
  const rows = /** @type {Row[]} */ (got.data ?? []);
  return html`<${Card} title=${name} aside=${html`<span class="dim">${counted(rows.length,
    'instance')} · ${space}</span>`}>
    <${Failed} error=${got.error} /><${Table} label=${name} rows=${rows} id=${(/** @type {Row} */ row) => row.ID}
      empty="No instance." columns=${[
      { name: 'Address', by: (row) => row.Address, show: (row) => html`<span class="mono">
        ${row.Address}:${row.Port}</span>` },
      { name: 'Job', show: (row) => html`<${Link} to=${paths.job({ ID: row.JobID,
        Namespace: row.Namespace })}>${row.JobID}<//>` },
      { name: 'Allocation', show: (row) => html`<${Link} class="mono" to=${paths.alloc(row.AllocID)}>
        ${short(row.AllocID)}<//>` },
      { name: 'Tags', show: (row) => (row.Tags ?? []).join(', '), class: 'p2' }]} /><//>`;
}

export function Services() {
  const space = useSignal(namespace);
  const version = useMemo(() => versionOf('Service'), []);
  const got = useGet(`/v1/services?namespace=${encodeURIComponent(space)}`, version);
  const spaces = /** @type {Row[]} */ (got.data ?? []);
  return html`<${Head} title="Services" /><${Failed} error=${got.error} />
    ${!got.loading && !got.error && spaces.length === 0 ? html`<section class="card">
      <${Empty}>No service is registered with Songline.<//></section>` : null}
    ${spaces.flatMap((one) => (one.Services ?? []).map((/** @type {Row} */ service) => html`<${Instances}
      key=${`${one.Namespace}/${service.ServiceName}`}
      name=${service.ServiceName} space=${one.Namespace} version=${version} />`))}`;
}
