//! What tokens may do: lists of tokens, policies, roles, auth methods and binding rules. Their editors are in `access/`.

import { useGet, write } from '../api.js';
import { html, useMemo, useState } from '../lib.js';
import { Action, Card, Empty, Failed, Head, Tabs, Time } from '../parts/basics.js';
import { Table } from '../parts/table.js';
import { Link } from '../router.js';
import { versionOf } from '../store.js';
import { JsonEditor } from './access/json.js';
import { PolicyEditor } from './access/policy.js';
import { RoleEditor } from './access/role.js';
import { NewToken } from './access/token.js';

/** @typedef {Record<string, any>} Row */
/** @typedef {import('../parts/table.js').Column} Column */

const part = encodeURIComponent;

/**
 * @param {{title: string, path: string, topic: string, columns: Column[], id: (row: Row) => string,
 *   to?: (row: Row) => string, aside?: any}} props
 */
function List({ title, path, topic, columns, id, to, aside }) {
  const got = useGet(path, useMemo(() => versionOf(topic), [topic]));
  return html`<${Card} title=${title} aside=${aside}>${got.error ? html`<div class="body">${got.error.status === 400
    ? html`<${Empty}>${got.error.message}<//>` : html`<${Failed} error=${got.error} />`}</div>`
    : html`<${Table} label=${title} rows=${got.data ?? []} id=${id} to=${to} columns=${columns} empty="None." />`}<//>`;
}

/** Column with a name that leads to an editor. @param {(row: Row) => string} to @returns {Column} */
const linked = (to) => ({ name: 'Name', by: (row) => row.Name, show: (row) => html`<${Link} to=${to(row)}>
  <strong>${row.Name}</strong><//>` });

const TOKENS = /** @type {Column[]} */ ([
  { name: 'Name', by: (row) => row.Name, show: (row) => html`<strong>${row.Name || '—'}</strong>` },
  { name: 'Accessor', show: (row) => html`<span class="mono">${row.AccessorID}</span>`, class: 'p2' },
  { name: 'Type', by: (row) => row.Type, show: (row) => row.Type, class: 'p2' },
  { name: 'Rights', show: (row) => [...(row.Policies ?? []),
    ...(row.Roles ?? []).map((/** @type {Row} */ role) => `role ${role.Name}`)].join(', ') || '—', class: 'wide' },
  { name: 'Created', by: (row) => row.CreateTime, show: (row) => html`<${Time} time=${row.CreateTime} />`,
    class: 'num p3' },
  { name: 'Expires', show: (row) => html`<${Time} time=${row.ExpirationTime} ago=${false} />`, class: 'num p3' },
  { name: 'Deletion', class: 'num', show: (row) => html`<${Action} confirm="Delete the token"
    run=${() => write('DELETE', `/v1/acl/token/${row.AccessorID}`)}>Delete<//>` },
]);

function Tokens() {
  const [isNew, begin] = useState(false);
  return html`${isNew ? html`<${NewToken} close=${() => begin(false)} />` : null}
    <${List} title="Tokens" path="/v1/acl/tokens" topic="ACLToken" id=${(/** @type {Row} */ row) => row.AccessorID}
      columns=${TOKENS} aside=${html`<button type="button" onClick=${() => begin(true)}>New token</button>`} />`;
}

function Policies() {
  const to = (/** @type {Row} */ row) => `/access/policies/${part(row.Name)}`;
  return html`<${List} title="Policies" path="/v1/acl/policies" topic="ACLPolicy" to=${to}
    id=${(/** @type {Row} */ row) => row.Name} aside=${html`<${Link}
      class="button" to="/access/new-policy">New policy<//>`}
    columns=${[linked(to), { name: 'Description', show: (/** @type {Row} */ row) => row.Description || '—', class: 'wide' },
      { name: 'Index', show: (/** @type {Row} */ row) => row.ModifyIndex, class: 'num p2' }]} />`;
}

function Roles() {
  const to = (/** @type {Row} */ row) => `/access/roles/${part(row.ID)}`;
  return html`<${List} title="Roles" path="/v1/acl/roles" topic="ACLRole" to=${to}
    id=${(/** @type {Row} */ row) => row.ID} aside=${html`<${Link} class="button" to="/access/new-role">New role<//>`}
    columns=${[linked(to), { name: 'Description', show: (/** @type {Row} */ row) => row.Description || '—', class: 'p2' },
      { name: 'Policies', class: 'wide', show: (/** @type {Row} */ row) => (row.Policies ?? []).map((/** @type {Row} */
        policy) => policy.Name).join(', ') }]} />`;
}

function Logins() {
  const method = (/** @type {Row} */ row) => `/access/methods/${part(row.Name)}`;
  const rule = (/** @type {Row} */ row) => `/access/rules/${part(row.ID)}`;
  return html`<${List} title="Auth methods" path="/v1/acl/auth-methods" topic="ACLAuthMethod" to=${method}
      id=${(/** @type {Row} */ row) => row.Name} aside=${html`<${Link}
        class="button" to="/access/new-method">New method<//>`}
      columns=${[linked(method), { name: 'Type', show: (/** @type {Row} */ row) => row.Type },
      { name: 'Default', show: (/** @type {Row} */ row) => (row.Default ? 'default' : '') },
      { name: 'Index', show: (/** @type {Row} */ row) => row.ModifyIndex, class: 'num p2' }]} />
    <${List} title="Binding rules" path="/v1/acl/binding-rules" topic="ACLBindingRule" to=${rule}
      id=${(/** @type {Row} */ row) => row.ID} aside=${html`<${Link} class="button" to="/access/new-rule">New rule<//>`}
      columns=${[{ name: 'Method', by: (/** @type {Row} */ row) => row.AuthMethod, show: (/** @type {Row} */ row) =>
        html`<${Link} to=${rule(row)}><strong>${row.AuthMethod}</strong><//>` },
      { name: 'Description', show: (/** @type {Row} */ row) => row.Description || '—', class: 'wide' },
      { name: 'Index', show: (/** @type {Row} */ row) => row.ModifyIndex, class: 'num p2' }]} />`;
}

const TABS = /** @type {[string, string][]} */ ([['', 'Tokens'], ['policies', 'Policies'], ['roles', 'Roles'],
  ['logins', 'Logins']]);

/** @param {{parts: string[]}} props */
export function Access({ parts }) {
  const [tab = '', of] = parts;
  if (tab === 'new-policy') return html`<${PolicyEditor} key="" name="" />`;
  if (tab === 'new-role') return html`<${RoleEditor} key="" id="" />`;
  if (tab === 'new-method') return html`<${JsonEditor} key="methods" kind="methods" id="" />`;
  if (tab === 'new-rule') return html`<${JsonEditor} key="rules" kind="rules" id="" />`;
  if ((tab === 'methods' || tab === 'rules') && of !== undefined) {
    return html`<${JsonEditor} key=${of} kind=${tab} id=${of} />`;
  }
  if (tab === 'policies' && of !== undefined) return html`<${PolicyEditor} key=${of} name=${of} />`;
  if (tab === 'roles' && of !== undefined) return html`<${RoleEditor} key=${of} id=${of} />`;
  return html`<${Head} title="Access" aside=${html`<${Link} class="button" to="/login">Log in<//>`} />
    <${Tabs} label="Parts of access" tabs=${TABS} chosen=${tab} to=${(/** @type {string} */ to) =>
      `/access${to === '' ? '' : `/${to}`}`} />
    ${tab === '' ? html`<${Tokens} />` : tab === 'policies' ? html`<${Policies} />`
      : tab === 'roles' ? html`<${Roles} />` : html`<${Logins} />`}`;
}
