//! Editor of an auth method or a binding rule, as JSON: their fields depend on the kind of login.

import { ApiError, useGet, write } from '../../api.js';
import { html, useEffect, useMemo, useState } from '../../lib.js';
import { Action, Card, Failed, Head } from '../../parts/basics.js';
import { Area } from '../../parts/form.js';
import { Link, go } from '../../router.js';
import { versionOf } from '../../store.js';

/** @typedef {Record<string, any>} Row */

const METHOD = { Name: 'sso', Type: 'OIDC', TokenLocality: 'local', MaxTokenTTL: '1h', Default: true, Config: {
  OIDCDiscoveryURL: 'https://id.example', OIDCClientID: '', OIDCClientSecret: '', OIDCScopes: ['groups'],
  BoundAudiences: [], AllowedRedirectURIs: [`${location.origin}/ui/settings/tokens`, 'http://localhost:4649/oidc/callback'],
  ListClaimMappings: { groups: 'groups' } } };
const RULE = { AuthMethod: 'sso', Description: '', Selector: '"engineering" in list.groups', BindType: 'policy',
  BindName: '' };

/** Two kinds of objects. @type {Record<string, {noun: string, path: string, topic: string, key: string, example: Row}>} */
const KINDS = {
  methods: { noun: 'auth method', path: '/v1/acl/auth-method', topic: 'ACLAuthMethod', key: 'Name', example: METHOD },
  rules: { noun: 'binding rule', path: '/v1/acl/binding-rule', topic: 'ACLBindingRule', key: 'ID', example: RULE },
};

/** @param {string} text @returns {Row} */
function parse(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new ApiError(0, error instanceof Error ? error.message : String(error));
  }
}

/** @param {{kind: string, id: string}} props  an empty id for a new one */
export function JsonEditor({ kind, id }) {
  const { noun, path, topic, key, example } = KINDS[kind];
  const isNew = id === '';
  const own = `${path}/${encodeURIComponent(id)}`;
  const got = useGet(isNew ? null : own, useMemo(() => versionOf(topic), []));
  const [text, setText] = useState(JSON.stringify(example, null, 2));
  const [dirty, setDirty] = useState(false);
  useEffect(() => {
    if (got.data === null || dirty) return;
    const { CreateIndex, ModifyIndex, CreateTime, ModifyTime, Hash, ...rest } = got.data;
    setText(JSON.stringify(rest, null, 2));
  }, [got.data]);
  const back = '/access/logins';
  const run = async () => write('PUT', isNew ? path : own, parse(text));
  return html`<${Head} title=${isNew ? `New ${noun}` : id} over=${html`<${Link} to=${back}>Logins<//> · ${noun}`}
      aside=${html`${isNew ? null : html`<${Action} confirm=${`Delete the ${noun}`} run=${() => write('DELETE', own)}
        done=${() => go(back)}>Delete<//>`}
      <${Action} kind="main" run=${run} done=${(/** @type {Row} */ row) => {
        setDirty(false);
        if (isNew) go(`/access/${kind}/${encodeURIComponent(row?.[key] ?? parse(text)[key] ?? '')}`);
      }}>Save<//>`} />
    <${Failed} error=${got.error} /><${Card} title=${noun}><div class="body form wide">
      <${Area} label="JSON. A secret that reads redacted stays as it is." rows=${24} value=${text}
        set=${(/** @type {string} */ to) => { setText(to); setDirty(true); }} /></div><//>`;
}
