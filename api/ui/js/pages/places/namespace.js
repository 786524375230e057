//! Editor of a namespace: its description, quota, metadata and permitted drivers.

import { useGet, write } from '../../api.js';
import { html, useMemo, useState } from '../../lib.js';
import { Action, Card, Failed, Head } from '../../parts/basics.js';
import { Choice, Newer, Text, useDraft } from '../../parts/form.js';
import { History } from '../../parts/history.js';
import { Link, go } from '../../router.js';
import { useRows, versionOf } from '../../store.js';
import { counted } from '../../words.js';

/** @typedef {Record<string, any>} Row */

const RESERVED = 'default';

/** @param {string} text */
const words = (text) => text.split(/[\s,]+/).filter((word) => word !== '');

/** @param {{name: string}} props  empty for a new namespace */
export function NamespaceEditor({ name }) {
  const isNew = name === '';
  const path = (/** @type {string} */ of) => `/v1/namespace/${encodeURIComponent(of)}`;
  const got = useGet(isNew ? null : path(name), useMemo(() => versionOf('Namespace'), []));
  // Before the server's fields are here, typing and saving would write over them.
  const isLoaded = isNew || got.data !== null;
  const quotas = useGet('/v1/quotas', useMemo(() => versionOf('Quota'), []), true);
  const jobs = [...useRows('Job').values()].filter((job) => job.Namespace === name);
  const [typed, setTyped] = useState('');
  const draft = useDraft({ description: '', quota: '', drivers: '' }, got.data === null ? null : {
    description: got.data.Description ?? '', quota: got.data.Quota ?? '',
    drivers: (got.data.Capabilities?.EnabledTaskDrivers ?? []).join(' ') });
  const { description, quota, drivers } = draft.mine;
  const of = isNew ? typed : name;
  const run = () => write('POST', '/v1/namespace', { ...(got.data ?? {}), Name: of, Description: description, Quota: quota,
    Capabilities: drivers.trim() === '' && !got.data?.Capabilities ? null
      : { ...(got.data?.Capabilities ?? {}), EnabledTaskDrivers: words(drivers) } });
  return html`<${Head} title=${isNew ? 'New namespace' : name} over=${html`<${Link} to="/places">Namespaces<//>`}
      aside=${html`${isNew || name === RESERVED ? null : html`<${Action} confirm="Delete the namespace"
        run=${() => write('DELETE', path(name))} done=${() => go('/places')}>Delete<//>`}
      <${Action} kind="main" disabled=${of === '' || !isLoaded} run=${run}
        done=${() => { draft.saved(); if (isNew) go(`/places/namespaces/${encodeURIComponent(of)}`); }}>
        Save<//>`} />
    <${Failed} error=${got.error} /><${Newer} draft=${draft} /><${Card} title="Namespace"
      aside=${isNew ? null : html`<span class="dim">
      ${counted(jobs.length, 'job')}</span>`}><fieldset
      class="body form" disabled=${!isLoaded}>
      ${isNew ? html`<${Text} label="Name" mono value=${typed} set=${setTyped} />` : null}
      <${Text} label="Description" value=${description}
        set=${(/** @type {string} */ to) => draft.set({ description: to })} />
      <${Choice} label="Quota" value=${quota} set=${(/** @type {string} */ to) => draft.set({ quota: to })}
        of=${['', ...(quotas.data ?? []).map((/** @type {Row} */ row) => row.Name)]} />
      <${Text} label="Permitted drivers" mono value=${drivers}
        set=${(/** @type {string} */ to) => draft.set({ drivers: to })}
        hint="Names with spaces between. Empty permits all." />
      </fieldset><//>${isNew ? null : html`<${History} kind="namespace" id=${name} topic="Namespace" />`}`;
}
