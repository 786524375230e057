//! Login: with a token's secret, with a method of single sign-on (OIDC), or with the token of another issuer (JWT).

import { ApiError, ask, get, token, useGet } from '../api.js';
import { html, useEffect, useSignal, useState } from '../lib.js';
import { Action, Card, Failed, Head, Pairs, Time } from '../parts/basics.js';
import { Area, Choice, Text } from '../parts/form.js';
import { go } from '../router.js';

/** @typedef {Record<string, any>} Row */

/** Where a provider sends the browser back: the path that Nomad's page has, so that auth methods allow it already. */
const RETURN = '/ui/settings/tokens';
/** A login that is under way, in the storage of this tab. */
const UNDER_WAY = 'songline.login';

/** @param {string} secret */
async function use(secret) {
  const before = token.value;
  token.value = secret;
  try {
    await get('/v1/acl/token/self', null);
  } catch (error) {
    token.value = before;
    throw error instanceof ApiError && error.status !== 0 ? new ApiError(0, 'the server does not know this token')
      : error;
  }
}

function InUse() {
  const secret = useSignal(token);
  const own = useGet(secret === '' ? null : '/v1/acl/token/self', undefined, true);
  if (secret === '') return null;
  return html`<${Card} title="Token in use" aside=${html`<button type="button"
    onClick=${() => { token.value = ''; }}>Log out</button>`}>
    ${own.data ? html`<${Pairs} pairs=${[['Name', own.data.Name], ['Accessor', own.data.AccessorID],
      ['Type', own.data.Type], ['Policies', (own.data.Policies ?? []).join(', ')],
      ['Roles', (own.data.Roles ?? []).map((/** @type {Row} */ role) => role.Name).join(', ')],
      ['Expires', html`<${Time} time=${own.data.ExpirationTime} ago=${false} />`]]} />`
      : html`<${Failed} error=${own.error} />`}<//>`;
}

function WithToken() {
  const [typed, setTyped] = useState('');
  const [error, setError] = useState(/** @type {any} */ (null));
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      await use(typed.trim());
      setError(null);
      setTyped('');
    } catch (caught) {
      setError(caught);
    }
  };
  return html`<${Failed} error=${error} /><${Card} title="Use a token"><form class="body form" onSubmit=${submit}>
    <${Text} label="Secret id" type="password" required value=${typed} set=${setTyped} />
    <p class="dim">The secret stays in this browser and is sent to this server only.</p><div>
      <button type="submit" class="main">Log in</button></div></form><//>`;
}

/** Begins a login with a provider: leads the browser there. @param {string} method */
async function begin(method) {
  const nonce = crypto.randomUUID();
  const redirect = location.origin + RETURN;
  const answer = await ask('/v1/acl/oidc/auth-url', { AuthMethodName: method, RedirectURI: redirect,
    ClientNonce: nonce });
  const to = new URL(answer.AuthURL);
  if (to.protocol !== 'https:' && to.protocol !== 'http:') throw new ApiError(0, 'the provider has no web address');
  sessionStorage.setItem(UNDER_WAY, JSON.stringify({ method, nonce, redirect }));
  location.assign(to);
}

/** Ends a login with what the provider gave the browser. @param {URLSearchParams} query */
async function end(query) {
  const kept = sessionStorage.getItem(UNDER_WAY);
  sessionStorage.removeItem(UNDER_WAY);
  if (query.get('error')) throw new ApiError(0, `the provider refused: ${query.get('error_description') ?? query.get('error')}`);
  if (kept === null) throw new ApiError(0, 'this tab has begun no login');
  const { method, nonce, redirect } = JSON.parse(kept);
  const answer = await ask('/v1/acl/oidc/complete-auth', { AuthMethodName: method, ClientNonce: nonce,
    RedirectURI: redirect, State: query.get('state') ?? '', Code: query.get('code') ?? '' });
  await use(answer.SecretID);
}

/** @param {{methods: Row[]}} props */
function WithIssuer({ methods }) {
  const issuers = methods.filter((method) => method.Type === 'JWT').map((method) => method.Name);
  const [method, setMethod] = useState('');
  const [text, setText] = useState('');
  if (issuers.length === 0) return null;
  const chosen = method === '' ? issuers[0] : method;
  const run = async () => use((await ask('/v1/acl/login', { AuthMethodName: chosen, LoginToken: text.trim() })).SecretID);
  return html`<${Card} title="Use a token of another issuer"><div class="body form">
    <${Choice} label="Method" value=${chosen} set=${setMethod} of=${issuers} />
    <${Area} label="Signed token (JWT)" rows=${4} value=${text} set=${setText} />
    <div><${Action} kind="main" disabled=${text.trim() === ''} run=${run} done=${() => setText('')}>Log in<//></div>
    </div><//>`;
}

/** @param {{query: URLSearchParams}} props */
export function Login({ query }) {
  const methods = useGet('/v1/acl/auth-methods', undefined, true);
  const [error, setError] = useState(/** @type {any} */ (null));
  const returns = query.has('state');
  useEffect(() => {
    if (returns) end(query).then(() => go('/'), (caught) => { setError(caught); go('/login'); });
  }, [returns]);
  const list = /** @type {Row[]} */ (methods.data ?? []);
  const providers = list.filter((method) => method.Type === 'OIDC');
  return html`<${Head} title="Log in" /><${Failed} error=${error} /><${InUse} />
    ${providers.length === 0 ? null : html`<${Card} title="Single sign-on"><div class="body tools">
      ${providers.map((method) => html`<${Action} key=${method.Name} kind=${method.Default ? 'main' : ''}
        run=${() => begin(method.Name)}>Log in with ${method.Name}<//>`)}</div><//>`}
    <${WithToken} /><${WithIssuer} methods=${list} />`;
}
