//! Keys of the whole page, and the window that lists them. Keys of tables are in `table.js`.

import { at } from '../api.js';
import { html, signal, useEffect, useRef, useSignal } from '../lib.js';
import { go } from '../router.js';
import { newest } from '../store.js';
import { open as machineOpen } from './machine.js';

const help = signal(false);
/** After `g`, the next key names a page. @type {Record<string, [string, string]>} */
const PLACES = {
  o: ['/', 'overview'], j: ['/jobs', 'jobs'], a: ['/allocations', 'allocations'], n: ['/clients', 'nodes'],
  d: ['/deployments', 'deployments'], v: ['/evaluations', 'evaluations'], r: ['/services', 'services'],
  s: ['/servers', 'servers'], l: ['/storage', 'volumes'], x: ['/variables', 'variables'], p: ['/places', 'namespaces and pools'],
  k: ['/access', 'access'], i: ['/sinks', 'event sinks'], e: ['/events', 'events'], c: ['/compare', 'compare'], u: ['/audit', 'audit'],
};
const SECOND_KEY_MS = 1200;

/** @param {number} by */
function step(by) {
  const index = (at.value ?? newest.value) + by;
  if (index >= newest.value) at.value = null;
  else if (index > 0) at.value = index;
}

export function listenToKeys() {
  let pressed = 0;
  window.addEventListener('keydown', (event) => {
    const target = event.target instanceof HTMLElement ? event.target : null;
    if (event.key === 'k' && (event.metaKey || event.ctrlKey)) {
      event.preventDefault();
      document.getElementById('find')?.focus();
      return;
    }
    if (event.metaKey || event.ctrlKey || event.altKey || target?.closest('input, textarea, select')) return;
    if (pressed > 0 && Date.now() - pressed < SECOND_KEY_MS && event.key in PLACES) {
      pressed = 0;
      go(PLACES[event.key][0]);
      return;
    }
    pressed = event.key === 'g' ? Date.now() : 0;
    if (event.key === '/') {
      event.preventDefault();
      document.getElementById('find')?.focus();
    } else if (event.key === '?') help.value = !help.value;
    else if (event.key === 't') machineOpen.value = !machineOpen.value;
    else if (event.key === '[') step(-1);
    else if (event.key === ']') step(1);
    else if (event.key === 'Escape' && !help.value) at.value = null;
  });
}

export function Keys() {
  const isOpen = useSignal(help);
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    if (isOpen) dialog.current?.showModal();
    else dialog.current?.close();
  }, [isOpen]);
  const keys = [['/', 'search'], ['j k', 'next and previous row of a table'], ['Enter', 'open the row'],
    ...Object.entries(PLACES).map(([key, [, name]]) => [`g ${key}`, name]), ['t', 'time machine'],
    ['[ ]', 'one entry back and forward'], ['Esc', 'return to the present'], ['?', 'these keys']];
  return html`<dialog ref=${dialog} aria-labelledby="keys-title" onClose=${() => { help.value = false; }}>
    <h2 id="keys-title">Keys</h2><div class="keys">${keys.map(([key, name]) => html`<kbd>${key}</kbd>
      <span>${name}</span>`)}</div>
    <button type="button" onClick=${() => { help.value = false; }}>Close</button></dialog>`;
}
