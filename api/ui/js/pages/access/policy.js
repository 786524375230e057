//! Editor of an ACL policy: its rules in Nomad's policy language, checked by the server.

import { useGet, write } from '../../api.js';
import { html, useEffect, useMemo, useState } from '../../lib.js';
import { Action, Card, Failed, Head } from '../../parts/basics.js';
import { Area, Text } from '../../parts/form.js';
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
  const [typed, setTyped] = useState('');
  const [words, setWords] = useState('');
  const [rules, setRules] = useState(EXAMPLE);
  const [base, setBase] = useState(0);
  const [dirty, setDirty] = useState(false);
  useEffect(() => {
    if (got.data === null || dirty) return;
    setWords(got.data.Description ?? '');
    setRules(got.data.Rules);
    setBase(got.data.ModifyIndex);
  }, [got.data]);
  const edit = (/** @type {(value: string) => void} */ set) => (/** @type {string} */ value) => {
    set(value);
    setDirty(true);
  };
  const of = isNew ? typed : name;
  const isNewer = dirty && got.data !== null && got.data.ModifyIndex > base;
  return html`<${Head} title=${isNew ? 'New policy' : name} over=${html`<${Link} to="/access/policies">Policies<//>`}
      aside=${html`${isNew ? null : html`<${Action} confirm="Delete the policy" run=${() => write('DELETE', path(name))}
        done=${() => go('/access/policies')}>Delete<//>`}
      <${Action} kind="main" disabled=${of === ''} run=${() => write('POST', path(of), { Name: of, Description: words,
        Rules: rules })} done=${() => { setDirty(false); if (isNew) go(`/access/policies/${encodeURIComponent(of)}`); }}>
        Save<//>`} />
    <${Failed} error=${got.error} />
    ${isNewer ? html`<div class="note warn" role="alert">The policy was changed by someone else after this edit began.
      ${' '}<button type="button" onClick=${() => { setRules(got.data.Rules); setWords(got.data.Description ?? '');
        setBase(got.data.ModifyIndex); setDirty(false); }}>Take theirs</button></div>` : null}
    <${Card} title="Rules"><div class="body form wide">
      ${isNew ? html`<${Text} label="Name" mono value=${typed} set=${setTyped} />` : null}
      <${Text} label="Description" value=${words} set=${edit(setWords)} />
      <${Area} label="Rules, HCL" rows=${18} value=${rules} set=${edit(setRules)} /></div><//>`;
}
