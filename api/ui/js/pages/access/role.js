//! Editor of an ACL role: a name for several policies.

import { useGet, write } from '../../api.js';
import { html, useEffect, useMemo, useState } from '../../lib.js';
import { Action, Card, Failed, Head } from '../../parts/basics.js';
import { Several, Text } from '../../parts/form.js';
import { Link, go } from '../../router.js';
import { versionOf } from '../../store.js';

/** @typedef {Record<string, any>} Row */

/** @param {{id: string}} props  empty for a new role */
export function RoleEditor({ id }) {
  const isNew = id === '';
  const path = isNew ? '/v1/acl/role' : `/v1/acl/role/${encodeURIComponent(id)}`;
  const got = useGet(isNew ? null : path, useMemo(() => versionOf('ACLRole'), []));
  const policies = useGet('/v1/acl/policies', useMemo(() => versionOf('ACLPolicy'), []), true);
  const [name, setName] = useState('');
  const [words, setWords] = useState('');
  const [chosen, choose] = useState(/** @type {string[]} */ ([]));
  useEffect(() => {
    if (got.data === null) return;
    setName(got.data.Name);
    setWords(got.data.Description ?? '');
    choose((got.data.Policies ?? []).map((/** @type {Row} */ policy) => policy.Name));
  }, [got.data]);
  const run = () => write('POST', path, { ...(isNew ? {} : { ID: id }), Name: name, Description: words,
    Policies: chosen.map((policy) => ({ Name: policy })) });
  return html`<${Head} title=${isNew ? 'New role' : name || id} over=${html`<${Link} to="/access/roles">Roles<//>`}
      aside=${html`${isNew ? null : html`<${Action} confirm="Delete the role" run=${() => write('DELETE', path)}
        done=${() => go('/access/roles')}>Delete<//>`}
      <${Action} kind="main" disabled=${name === '' || chosen.length === 0} run=${run}
        done=${(/** @type {Row} */ row) => { if (isNew) go(`/access/roles/${encodeURIComponent(row.ID)}`); }}>Save<//>`} />
    <${Failed} error=${got.error} /><${Card} title="Role"><div class="body form">
      <${Text} label="Name" value=${name} set=${setName} /><${Text} label="Description" value=${words} set=${setWords} />
      <${Several} label="Policies" chosen=${chosen} set=${choose}
        of=${(policies.data ?? []).map((/** @type {Row} */ row) => row.Name)} /></div><//>`;
}
