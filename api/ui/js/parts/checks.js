//! Services of an allocation, and the newest results of their checks, which the node keeps.

import { at, useGet } from '../api.js';
import { html, useMemo, useSignal } from '../lib.js';
import { versionOf } from '../store.js';
import { Card, Status, Time } from './basics.js';

/** @typedef {Record<string, any>} Row */

/** @param {{alloc: Row}} props */
export function AllocChecks({ alloc }) {
  const past = useSignal(at) !== null;
  const space = `namespace=${encodeURIComponent(alloc.Namespace)}`;
  const version = useMemo(() => versionOf('Service', 'Allocation'), []);
  const services = useGet(`/v1/allocation/${alloc.ID}/services?${space}`, version);
  const got = useGet(past || alloc.ClientStatus !== 'running' ? null
    : `/v1/client/allocation/${alloc.ID}/checks?${space}`, version, true);
  const checks = Object.values(/** @type {Record<string, Row>} */ (got.data ?? {}));
  const rows = /** @type {Row[]} */ (Array.isArray(services.data) ? services.data : []);
  if (rows.length === 0 && checks.length === 0) return null;
  return html`<${Card} title="Services and checks"><div class="body stack">
    ${rows.map((row) => html`<div key=${row.ID}><strong>${row.ServiceName}</strong>
      ${' '}<span class="mono">${row.Address}${row.Port > 0 ? `:${row.Port}` : ''}</span>
      ${' '}<span class="dim">${(row.Tags ?? []).join(', ')}</span></div>`)}
    ${checks.map((check) => html`<div key=${check.ID}><span class="pair"><${Status} value=${
      check.Status === 'success' ? 'passing' : check.Status === 'failure' ? 'failing' : check.Status} />
      <strong>${check.Check}</strong> <small class="dim"><${Time} time=${check.Timestamp * 1e9} /></small></span>
      ${check.Output ? html`<div class="mono dim clip">${check.Output}</div>` : null}</div>`)}</div><//>`;
}
