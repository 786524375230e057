//! Editor of an ACL policy: its rules in Nomad's policy language, checked by the server.

import { useGet, write } from '../../api.js';
import { html, useMemo, useState } from '../../lib.js';
import { Action, Card, Failed, Head } from '../../parts/basics.js';
import { Area, Newer, Text, useDraft } from '../../parts/form.js';
import { Link, go } from '../../router.js';
import { versionOf } from '../../store.js';

const EXAMPLE = `namespace "default" {
  policy = "read"
}
`;

/** @param {{name: string}} props  empty for a new policy */
export function PolicyEditor({ name }) {
  const isNew = name === '';
  const path = (/** @type {string} */ of) => `/v1/acl/policy/${encodeURIComponent(of)}`;
  const got = useGet(isNew ? null : path(name), useMemo(() => versionOf('ACLPolicy'), []));
  // Before the server's fields are here, typing and saving would write over them.
  const isLoaded = isNew || got.data !== null;
  const [typed, setTyped] = useState('');
  const draft = useDraft({ words: '', rules: EXAMPLE }, got.data === null ? null : {
    words: got.data.Description ?? '', rules: got.data.Rules });
  const { words, rules } = draft.mine;
  const of = isNew ? typed : name;
  return html`<${Head} title=${isNew ? 'New policy' : name} over=${html`<${Link} to="/access/policies">Policies<//>`}
      aside=${html`${isNew ? null : html`<${Action} confirm="Delete the policy" run=${() => write('DELETE', path(name))}
        done=${() => go('/access/policies')}>Delete<//>`}
      <${Action} kind="main" disabled=${of === '' || !isLoaded} run=${() => write('POST', path(of), { Name: of, Description: words,
        Rules: rules })} done=${() => { draft.saved(); if (isNew) go(`/access/policies/${encodeURIComponent(of)}`); }}>
        Save<//>`} />
    <${Failed} error=${got.error} />
    <${Newer} draft=${draft} />
    <${Card} title="Rules"><fieldset
      class="body form wide" disabled=${!isLoaded}>
      ${isNew ? html`<${Text} label="Name" mono value=${typed} set=${setTyped} />` : null}
      <${Text} label="Description" value=${words} set=${(/** @type {string} */ to) => draft.set({ words: to })} />
      <${Area} label="Rules, HCL" rows=${18} value=${rules}
        set=${(/** @type {string} */ to) => draft.set({ rules: to })} /></fieldset><//>`;
}
