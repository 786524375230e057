//! The frame of the page: navigation, search, connection, theme, keys, and the choice of the page.

import { at, token } from './api.js';
import { effect, html, kept, render, signal, useEffect, useErrorBoundary, useRef, useSignal } from './lib.js';
import { Finder } from './parts/finder.js';
import { Keys, listenToKeys } from './parts/keys.js';
import { Machine, Banner, open as machineOpen } from './parts/machine.js';
import { Status } from './parts/basics.js';
import { Elsewhere, Label } from './parts/settings.js';
import { Link, route, start as startRouter } from './router.js';
import { connection, follow, namespace, newest, start as startStore, useList, useRows } from './store.js';
import { Access } from './pages/access.js';
import { TABS as ALLOC_TABS, Alloc, Allocs } from './pages/alloc.js';
import { Audit } from './pages/audit.js';
import { Compare } from './pages/compare.js';
import { Deployment, Deployments } from './pages/deployments.js';
import { Evaluation, Evaluations } from './pages/evaluations.js';
import { Events } from './pages/events.js';
import { TABS as JOB_TABS, Job, Jobs } from './pages/job.js';
import { Login } from './pages/login.js';
import { Node, Nodes } from './pages/node.js';
import { Overview } from './pages/overview.js';
import { Places } from './pages/places.js';
import { RunJob } from './pages/run.js';
import { Servers } from './pages/servers.js';
import { Services } from './pages/services.js';
import { Sinks } from './pages/sinks.js';
import { Storage } from './pages/storage.js';
import { Variables } from './pages/variables.js';

/** Colours: those of the system, or the chosen ones. */
const theme = kept('theme', 'system');
const menu = signal(false);

effect(() => {
  if (theme.value === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
});

/** Tab of a page. Nomad's page has tasks, and other words, in these paths: `/allocations/ID/TASK/logs`, `/allocations/ID/fs`.
 * @param {[string, string][]} tabs  path and name
 * @param {string[]} parts
 */
function tabOf(tabs, parts) {
  const words = parts.slice(1).map((word) => (word === 'fs' ? 'files' : word));
  return words.find((word) => tabs.some(([tab]) => tab === word)) ?? '';
}

/** Pages by the first part of their path.
 * @type {Record<string, (props: {parts: string[], query: URLSearchParams}) => any>} */
const PAGES = {
  '': Overview,
  jobs: ({ parts, query }) => (parts.length === 0 ? html`<${Jobs} query=${query} />` : parts[0] === 'run'
    ? html`<${RunJob} />` : html`<${Job} key=${parts[0]} name=${parts[0]} tab=${tabOf(JOB_TABS, parts)} />`),
  allocations: ({ parts }) => (parts.length === 0 ? html`<${Allocs} />`
    : html`<${Alloc} key=${parts[0]} id=${parts[0]} tab=${tabOf(ALLOC_TABS, parts)} />`),
  clients: ({ parts }) => (parts.length === 0 ? html`<${Nodes} />` : html`<${Node} key=${parts[0]} id=${parts[0]} />`),
  evaluations: ({ parts }) => (parts.length === 0 ? html`<${Evaluations} />`
    : html`<${Evaluation} key=${parts[0]} id=${parts[0]} />`),
  deployments: ({ parts }) => (parts.length === 0 ? html`<${Deployments} />`
    : html`<${Deployment} key=${parts[0]} id=${parts[0]} />`),
  services: Services, storage: Storage, variables: Variables, places: Places, access: Access, login: Login,
  // Where providers of single sign-on send the browser back, and other paths of Nomad's page.
  settings: Login, topology: Nodes, csi: Storage,
  servers: Servers, sinks: Sinks, events: Events, audit: Audit, compare: Compare,
};

/** @type {[string, [string, string, string][]][]} */
const MENU = [
  ['Work', [['', 'Overview', ''], ['jobs', 'Jobs', 'Job'], ['allocations', 'Allocations', 'Allocation'],
    ['deployments', 'Deployments', ''], ['evaluations', 'Evaluations', ''], ['services', 'Services', '']]],
  ['Cluster', [['clients', 'Nodes', 'Node'], ['servers', 'Servers', ''], ['sinks', 'Event sinks', ''],
    ['storage', 'Volumes', ''], ['variables', 'Variables', ''], ['places', 'Namespaces', ''], ['access', 'Access', '']]],
  ['Past', [['events', 'Events', ''], ['compare', 'Compare', ''], ['audit', 'Audit', '']]],
];

/** @param {{topic: string}} props */
function Count({ topic }) {
  return html`<small>${useList(topic).length.toLocaleString('en')}</small>`;
}

function Side() {
  const here = useSignal(route).parts[0] ?? '';
  const open = useSignal(menu);
  const secret = useSignal(token);
  return html`<aside class=${`side ${open ? 'open' : ''}`} id="side">
    <${Link} class="brand" to="/"><img src="/ui/icon.svg" alt="" />Songline<//><${Label} />
    ${MENU.map(([title, items]) => html`<h3 id=${`menu-${title}`}>${title}</h3><nav aria-labelledby=${`menu-${title}`}>
      ${items.map(([path, name, topic]) => html`<${Link} to=${`/${path}`} aria-current=${path === here ? 'page'
        : undefined}>
        <span>${name}</span>${topic ? html`<${Count} topic=${topic} />` : null}<//>`)}</nav>`)}
    <div class="foot"><p><${Elsewhere} /></p><${Link} to="/login">${secret === '' ? 'Log in' : 'Token in use'}<//></div></aside>`;
}

function Connection() {
  const { state, why } = useSignal(connection);
  const index = useSignal(newest);
  return html`<span class="link-state" role="status" title=${why || 'Connection to the event stream'}>
    <${Status} value=${state} /><b title="Newest log index on this page">${index > 0 ? `#${index}` : ''}</b></span>`;
}

function Offline() {
  const { state, why } = useSignal(connection);
  if (state === 'denied') {
    return html`<div class="offline" role="alert">This token may not follow the cluster: ${why}
      <${Link} class="button" to="/login">Log in<//></div>`;
  }
  if (state !== 'disconnected') return null;
  return html`<div class="offline" role="alert"><span>Disconnected: ${why}. The page shows the last known state and
    catches up by itself.</span><button type="button" onClick=${follow}>Try now</button></div>`;
}

function Namespaces() {
  const chosen = useSignal(namespace);
  const names = [...useRows('Namespace').keys()].sort();
  if (chosen !== '*' && !names.includes(chosen)) names.unshift(chosen);
  return html`<select class="wide" aria-label="Namespace" value=${chosen}
    onChange=${(/** @type {any} */ event) => { namespace.value = event.target.value; }}>
    <option value="*">All namespaces</option>${names.map((name) => html`<option value=${name}>
      ${name}</option>`)}</select>`;
}

function Theme() {
  const chosen = useSignal(theme);
  const next = chosen === 'system' ? 'dark' : chosen === 'dark' ? 'light' : 'system';
  return html`<button type="button" class="quiet wide" title="Colours of the page"
    aria-label=${`Colours: ${chosen}. Change to ${next}`} onClick=${() => { theme.value = next; }}>
    ${chosen === 'system' ? '◐' : chosen === 'dark' ? '●' : '○'}</button>`;
}

function Top() {
  const isOpen = useSignal(machineOpen);
  const isMenu = useSignal(menu);
  return html`<header class="top">
    <button type="button" class="menu" aria-label="Menu" aria-expanded=${isMenu} aria-controls="side"
      onClick=${(/** @type {any} */ event) => { event.stopPropagation(); menu.value = !isMenu; }}>☰</button>
    <${Finder} /><span class="push"></span><${Namespaces} /><${Connection} />
    <button type="button" aria-pressed=${isOpen} title="Look at a past state (t)"
      onClick=${() => { machineOpen.value = !isOpen; }}>Time<span class="wide">${' '}machine</span></button>
        <${Theme} /></header>`;
}

/** @param {{children: any}} props */
function Guard({ children }) {
  const [error, again] = useErrorBoundary((/** @type {Error} */ caught) => console.error(caught));
  if (!error) return children;
  return html`<div class="note bad" role="alert"><strong>This page has a defect: </strong>${error.message}
    <p><button type="button" onClick=${again}>Show it again</button></p></div>`;
}

function Page() {
  const { parts, query } = useSignal(route);
  const [first = '', ...rest] = parts;
  const Chosen = PAGES[first];
  const main = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => { window.scrollTo(0, 0); }, [parts.slice(0, 2).join('/')]);
  return html`<main id="main" tabindex="-1" ref=${main}><${Guard} key=${parts.join('/')}>
    ${Chosen === undefined ? html`<h1>There is no such page</h1><p><${Link} to="/">Overview<//></p>`
      : html`<${Chosen} parts=${rest} query=${query} />`}<//></main>`;
}

function App() {
  const past = useSignal(at) !== null;
  useEffect(() => {
    const close = () => { menu.value = false; };
    window.addEventListener('click', close);
    return () => window.removeEventListener('click', close);
  }, []);
  return html`<a class="skip" href="#main">Skip to the page</a>
    <div class=${`frame ${past ? 'is-past-page' : ''}`}><${Side} />
    <div><${Top} /><${Offline} /><${Banner} /><${Page} /></div></div><${Machine} /><${Keys} />`;
}

startRouter();
startStore();
listenToKeys();
const root = document.getElementById('app');
if (root !== null) {
  root.replaceChildren();
  render(html`<${App} />`, root);
}
