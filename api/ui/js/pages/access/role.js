//! Editor of an ACL role: a name for several policies.

import { useGet, write } from '../../api.js';
import { html, useMemo } from '../../lib.js';
import { Action, Card, Failed, Head } from '../../parts/basics.js';
import { Newer, Several, Text, useDraft } from '../../parts/form.js';
import { Link, go } from '../../router.js';
import { versionOf } from '../../store.js';

/** @typedef {Record<string, any>} Row */

/** @param {{id: string}} props  empty for a new role */
export function RoleEditor({ id }) {
  const isNew = id === '';
  const path = isNew ? '/v1/acl/role' : `/v1/acl/role/${encodeURIComponent(id)}`;
  const got = useGet(isNew ? null : path, useMemo(() => versionOf('ACLRole'), []));
  // Before the server's fields are here, typing and saving would write over them.
  const isLoaded = isNew || got.data !== null;
  const policies = useGet('/v1/acl/policies', useMemo(() => versionOf('ACLPolicy'), []), true);
  const draft = useDraft({ name: '', words: '', chosen: /** @type {string[]} */ ([]) }, got.data === null ? null : {
    name: got.data.Name, words: got.data.Description ?? '',
    chosen: (got.data.Policies ?? []).map((/** @type {Row} */ policy) => policy.Name) });
  const { name, words, chosen } = draft.mine;
  const run = () => write('POST', path, { ...(isNew ? {} : { ID: id }), Name: name, Description: words,
    Policies: chosen.map((policy) => ({ Name: policy })) });
  return html`<${Head} title=${isNew ? 'New role' : name || id} over=${html`<${Link} to="/access/roles">Roles<//>`}
      aside=${html`${isNew ? null : html`<${Action} confirm="Delete the role" run=${() => write('DELETE', path)}
        done=${() => go('/access/roles')}>Delete<//>`}
      <${Action} kind="main" disabled=${name === '' || chosen.length === 0 || !isLoaded} run=${run}
        done=${(/** @type {Row} */ row) => { draft.saved(); if (isNew) go(`/access/roles/${encodeURIComponent(row.ID)}`); }}>Save<//>`} />
    <${Failed} error=${got.error} /><${Newer} draft=${draft} /><${Card} title="Role"><fieldset
      class="body form" disabled=${!isLoaded}>
      <${Text} label="Name" value=${name} set=${(/** @type {string} */ to) => draft.set({ name: to })} />
      <${Text} label="Description" value=${words} set=${(/** @type {string} */ to) => draft.set({ words: to })} />
      <${Several} label="Policies" chosen=${chosen} set=${(/** @type {string[]} */ to) => draft.set({ chosen: to })}
        of=${(policies.data ?? []).map((/** @type {Row} */ row) => row.Name)} /></fieldset><//>`;
}
