//! Editor of a quota: its limits in this region, beside what its namespaces use.

import { useGet, write } from '../../api.js';
import { html, useMemo, useState } from '../../lib.js';
import { Action, Card, Failed, Head, Meter } from '../../parts/basics.js';
import { Newer, Text, useDraft } from '../../parts/form.js';
import { Link, go } from '../../router.js';
import { useRows, versionOf } from '../../store.js';

/** @typedef {Record<string, any>} Row */
/** @typedef {{name: string, unit: string, limit: (limit: Row) => number | null, set: (limit: Row, value: number) => Row}} Dimension */

/** Limits that the page edits; others are kept as they are. @type {Dimension[]} */
export const DIMENSIONS = [
  ...[['CPU', 'MHz', 'CPU'], ['Cores', '', 'Cores'], ['Memory', 'MiB', 'MemoryMB'], ['Memory at most', 'MiB', 'MemoryMaxMB']]
    .map(([name, unit, field]) => ({ name, unit, limit: (/** @type {Row} */ limit) => limit.RegionLimit?.[field] ?? null,
      set: (/** @type {Row} */ limit, /** @type {number} */ value) => ({ ...limit,
        RegionLimit: { ...(limit.RegionLimit ?? {}), [field]: value } }) })),
  ...[['Variables', 'MiB', 'VariablesLimit'], ['Allocations', '', 'AllocationsLimit']].map(([name, unit, field]) => ({ name,
    unit, limit: (/** @type {Row} */ limit) => limit[field] ?? null,
    set: (/** @type {Row} */ limit, /** @type {number} */ value) => ({ ...limit, [field]: value }) })),
];

/** Limit and use of a quota in one region. @param {Row} quota @param {Row | undefined} usage @param {string} region */
export function inRegion(quota, usage, region) {
  const limit = (quota.Limits ?? []).find((/** @type {Row} */ one) => one.Region === region) ?? quota.Limits?.[0] ?? {};
  const used = Object.values(/** @type {Record<string, Row>} */ (usage?.Used ?? {})).find((one) => one.Region === limit.Region) ?? {};
  return { limit, used };
}

/** What a quota limits and how much of it is used, as bars. @param {{quota: Row, usage: Row | undefined}} props */
export function Use({ quota, usage }) {
  const { limit, used } = inRegion(quota, usage, 'global');
  const bounds = DIMENSIONS.filter((dimension) => dimension.limit(limit));
  if (bounds.length === 0) return html`<span class="dim">no limit</span>`;
  return html`<div class="stack tight">${bounds.map((dimension) => {
    const total = Math.max(0, Number(dimension.limit(limit)));
    const now = Number(dimension.limit(used) ?? 0);
    return html`<${Meter} key=${dimension.name} label=${dimension.name} used=${now} total=${total}
      text=${`${dimension.name}: ${now} of ${total} ${dimension.unit}`} />`;
  })}</div>`;
}

/** @param {{name: string}} props  empty for a new quota */
export function QuotaEditor({ name }) {
  const isNew = name === '';
  const path = (/** @type {string} */ of) => `/v1/quota/${encodeURIComponent(of)}`;
  const got = useGet(isNew ? null : path(name), useMemo(() => versionOf('Quota'), []));
  // Before the server's fields are here, typing and saving would write over them.
  const isLoaded = isNew || got.data !== null;
  const usage = useGet(isNew ? null : `/v1/quota/usage/${encodeURIComponent(name)}`,
    useMemo(() => versionOf('Quota', 'Allocation', 'Namespace'), []));
  const own = useGet('/v1/agent/self', undefined, true);
  const spaces = [...useRows('Namespace').values()].filter((space) => space.Quota === name && !isNew);
  const [typed, setTyped] = useState('');
  const draft = useDraft({ description: '', limit: /** @type {Row} */ ({}) }, got.data === null ? null : {
    description: got.data.Description ?? '',
    limit: inRegion(got.data, undefined, own.data?.config?.Region ?? 'global').limit });
  const { description, limit } = draft.mine;
  const of = isNew ? typed : name;
  const region = limit.Region ?? own.data?.config?.Region ?? 'global';
  const others = (got.data?.Limits ?? []).filter((/** @type {Row} */ one) => one.Region !== region);
  const run = () => write('POST', path(of), { ...(got.data ?? {}), Name: of, Description: description,
    Limits: [...others, { ...limit, Region: region }] });
  return html`<${Head} title=${isNew ? 'New quota' : name} over=${html`<${Link} to="/places">Quotas<//>`}
      aside=${html`${isNew ? null : html`<${Action} confirm="Delete the quota" run=${() => write('DELETE', path(name))}
        done=${() => go('/places')}>Delete<//>`}
      <${Action} kind="main" disabled=${of === '' || !isLoaded} run=${run}
        done=${() => { draft.saved(); if (isNew) go(`/places/quotas/${encodeURIComponent(of)}`); }}>
        Save<//>`} />
    <${Failed} error=${got.error} /><${Newer} draft=${draft} />
    <div class="grid"><div class="c6"><${Card} title=${`Limits in region ${region}`}><fieldset
      class="body form" disabled=${!isLoaded}>
      ${isNew ? html`<${Text} label="Name" mono value=${typed} set=${setTyped} />` : null}
      <${Text} label="Description" value=${description}
        set=${(/** @type {string} */ to) => draft.set({ description: to })} />
      <p class="dim">0 or nothing is no limit; a negative number allows nothing.</p>
      ${DIMENSIONS.map((dimension) => html`<${Text} key=${dimension.name} type="number" label=${`${dimension.name}${
        dimension.unit === '' ? '' : `, ${dimension.unit}`}`} value=${dimension.limit(limit) ?? ''}
        set=${(/** @type {string} */ to) => draft.set({ limit: dimension.set(limit, Number(to)) })} />`)}</fieldset><//></div>
    ${isNew || !got.data ? null : html`<div class="c6"><${Card} title="Used"><div class="body"><${Use}
      quota=${got.data} usage=${usage.data ?? undefined} /></div><//>
      <${Card} title="Namespaces"><div class="body">${spaces.length === 0 ? html`<span
        class="dim">No namespace has this quota.</span>`
        : spaces.map((space) => html`<${Link} key=${space.Name}
          to=${`/places/namespaces/${encodeURIComponent(space.Name)}`}>
          ${space.Name}<//> `)}</div><//></div>`}</div>`;
}
