//! Login with a token, and what tokens may do: tokens, policies, roles.

import { ApiError, get, token, useGet } from '../api.js';
import { html, useMemo, useSignal, useState } from '../lib.js';
import { Card, Empty, Failed, Head, Pairs, Time } from '../parts/basics.js';
import { Table } from '../parts/table.js';
import { Link } from '../router.js';
import { versionOf } from '../store.js';

/** @typedef {Record<string, any>} Row */

export function Login() {
  const secret = useSignal(token);
  const [typed, setTyped] = useState('');
  const [error, setError] = useState(/** @type {any} */ (null));
  const own = useGet(secret === '' ? null : '/v1/acl/token/self', undefined, true);
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const before = token.value;
    token.value = typed.trim();
    try {
      await get('/v1/acl/token/self', null);
      setError(null);
      setTyped('');
    } catch (caught) {
      setError(caught instanceof ApiError && caught.status !== 0 ? new ApiError(0,
        'the server does not know this token') : caught);
      token.value = before;
    }
  };
  return html`<${Head} title="Log in" /><${Failed} error=${error} />
    ${secret === '' ? null : html`<${Card} title="Token in use" aside=${html`<button type="button"
      onClick=${() => { token.value = ''; }}>Log out</button>`}>
      ${own.data ? html`<${Pairs} pairs=${[['Name', own.data.Name], ['Accessor', own.data.AccessorID],
        ['Type', own.data.Type],
        ['Policies', (own.data.Policies ?? []).join(', ')], ['Expires', html`<${Time} time=${own.data.ExpirationTime}
          ago=${false} />`]]} />`
        : html`<${Failed} error=${own.error} />`}<//>`}
    <${Card} title="Use a token"><form class="body form" onSubmit=${submit}><label>Secret id
      <input type="password" autocomplete="off" required value=${typed} onInput=${(/** @type {any} */ e) =>
        setTyped(e.target.value)} /></label>
      <p class="dim">The secret stays in this browser and is sent to this server only.</p><div>
        <button type="submit" class="main">Log in</button></div></form><//>`;
}

/**
 * @param {{title: string, path: string, topic: string, columns: import('../parts/table.js').Column[],
 *   id: (row: Row) => string}} props
 */
function List({ title, path, topic, columns, id }) {
  const got = useGet(path, useMemo(() => versionOf(topic), [topic]));
  return html`<${Card} title=${title}>${got.error ? html`<div class="body">${got.error.status === 400
    ? html`<${Empty}>${got.error.message}<//>`
    : html`<${Failed} error=${got.error} />`}</div>` : html`<${Table} label=${title} rows=${got.data ?? []} id=${id}
      columns=${columns} empty="None." />`}<//>`;
}

export function Access() {
  const name = { name: 'Name', by: (/** @type {Row} */ row) => row.Name, show: (/** @type {Row} */ row) =>
    html`<strong>${row.Name || '—'}</strong>` };
  return html`<${Head} title="Access" aside=${html`<${Link} class="button" to="/login">Use another token<//>`} />
    <${List} title="Tokens" path="/v1/acl/tokens" topic="ACLToken" id=${(/** @type {Row} */ row) => row.AccessorID}
      columns=${[name,
      { name: 'Accessor', show: (row) => html`<span class="mono">${row.AccessorID}</span>`, class: 'p2' },
      { name: 'Type', by: (row) => row.Type, show: (row) => row.Type },
      { name: 'Policies', show: (row) => [
        ...(row.Policies ?? []),
        ...(row.Roles ?? []).map((/** @type {Row} */ role) => `role ${role.Name}`)].join(', ') || '—', class: 'wide' },
      { name: 'Created', by: (row) => row.CreateTime, show: (row) => html`<${Time}
        time=${row.CreateTime} />`, class: 'num p2' },
      { name: 'Expires', show: (row) => html`<${Time} time=${row.ExpirationTime} ago=${false} />`,
        class: 'num p3' }]} />
    <${List} title="Policies" path="/v1/acl/policies" topic="ACLPolicy" id=${(/** @type {Row} */ row) => row.Name}
      columns=${[name,
      { name: 'Description', show: (row) => row.Description || '—', class: 'wide' },
        { name: 'Index', show: (row) => row.ModifyIndex, class: 'num' }]} />
    <${List} title="Roles" path="/v1/acl/roles" topic="ACLRole" id=${(/** @type {Row} */ row) => row.ID}
      columns=${[name,
      { name: 'Policies', show: (row) => (row.Policies ?? []).map((/** @type {Row} */ policy) => policy.Name).join(', '), class: 'wide' }]} />`;
}
