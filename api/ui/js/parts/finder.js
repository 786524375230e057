//! Search over the rows that the page has: jobs, nodes, allocations, evaluations and deployments, by name or id.

import { html, useMemo, useRef, useState } from '../lib.js';
import { go, paths } from '../router.js';
import { useRows } from '../store.js';
import { short } from '../words.js';

const EACH_MAX = 6;

/** @typedef {{kind: string, name: string, more: string, to: string}} Found */

/** @param {string} text @returns {Found[]} */
function useFound(text) {
  const jobs = useRows('Job');
  const nodes = useRows('Node');
  const allocs = useRows('Allocation');
  const evals = useRows('Evaluation');
  const deployments = useRows('Deployment');
  return useMemo(() => {
    const wanted = text.trim().toLowerCase();
    if (wanted === '') return [];
    /** @type {Found[]} */
    const out = [];
    /** @param {Map<string, any>} rows @param {(row: any) => string[]} words @param {(row: any) => Found} found */
    const look = (rows, words, found) => {
      let count = 0;
      for (const row of rows.values()) {
        if (count === EACH_MAX) return;
        if (words(row).some((word) => word.toLowerCase().includes(wanted))) {
          out.push(found(row));
          count += 1;
        }
      }
    };
    look(jobs, (row) => [row.ID, row.Name], (row) => (
      { kind: 'job', name: row.ID, more: row.Namespace, to: paths.job(row) }));
    look(nodes, (row) => [row.Name, row.ID.slice(0, wanted.length)], (row) => (
      { kind: 'node', name: row.Name, more: short(row.ID), to: paths.node(row.ID) }));
    look(allocs, (row) => [row.ID.slice(0, wanted.length), row.Name], (row) => (
      { kind: 'allocation', name: short(row.ID), more: row.Name, to: paths.alloc(row.ID) }));
    if (wanted.length >= 4) {
      look(evals, (row) => [row.ID.slice(0, wanted.length)], (row) => (
        { kind: 'evaluation', name: short(row.ID), more: row.JobID, to: paths.evaluation(row.ID) }));
      look(deployments, (row) => [row.ID.slice(0, wanted.length)], (row) => (
        { kind: 'deployment', name: short(row.ID), more: row.JobID, to: paths.deployment(row.ID) }));
    }
    return out;
  }, [text, jobs.size, nodes.size, allocs.size, evals.size, deployments.size]);
}

export function Finder() {
  const [text, setText] = useState('');
  const [chosen, choose] = useState(0);
  const [focused, focus] = useState(false);
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  const found = useFound(text);
  const take = (/** @type {Found | undefined} */ one) => {
    if (one === undefined) return;
    setText('');
    input.current?.blur();
    go(one.to);
  };
  const key = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault();
      const step = event.key === 'ArrowDown' ? 1 : -1;
      choose(Math.max(0, Math.min(found.length - 1, chosen + step)));
    } else if (event.key === 'Enter') take(found[chosen]);
    else if (event.key === 'Escape') {
      setText('');
      input.current?.blur();
    }
  };
  const isOpen = focused && text.trim() !== '';
  return html`<div class="find"><input id="find" ref=${input} type="search" placeholder="Find a job, node or allocation"
      aria-label="Find a job, node or allocation" role="combobox" aria-expanded=${isOpen} aria-controls="found"
        autocomplete="off"
      aria-activedescendant=${isOpen && found.length > 0 ? `found-${chosen}` : undefined} value=${text}
      onInput=${(/** @type {any} */ event) => { setText(event.target.value); choose(0); }} onKeyDown=${key}
      onFocus=${() => focus(true)} onBlur=${() => focus(false)} /><kbd aria-hidden="true">/</kbd>
    ${isOpen ? html`<ul class="found" id="found" role="listbox" aria-label="Found">
      ${found.length === 0 ? html`<li role="option" aria-selected="false"
        class="dim">Nothing has this in its name or id.</li>`
        : found.map((one, i) => html`<li role="option" id=${`found-${i}`} aria-selected=${i === chosen}
          onMouseDown=${(/** @type {any} */ event) => { event.preventDefault(); take(one); }}>
          <span>${one.name}</span><small class="dim">${one.kind} · ${one.more}</small></li>`)}</ul>` : null}</div>`;
}
