//! The time machine: a slider over the retained log. All pages show the state after the chosen entry.

import { ApiError, at, get, request, token } from '../api.js';
import { effect, html, kept, signal, untracked, useEffect, useSignal, useState } from '../lib.js';
import { Link } from '../router.js';
import { newest, pastState } from '../store.js';
import { actorWords } from '../words.js';
import { Time } from './basics.js';

/** Entries that the marks above the slider show at most. */
const MARKS_MAX = 1000;
/** A moved slider rests this long before a state is read. */
const REST_MS = 120;

const isOpen = kept('machine', '');
/** Whether the slider is on screen. */
export const open = {
  get value() { return isOpen.value !== ''; },
  set value(shown) { isOpen.value = shown ? 'open' : ''; },
};

/** Oldest index that can be read. */
const oldest = signal(1);
/** Newest entries of the log, newest first; empty for tokens that may not read the audit. */
const entries = signal(/** @type {Record<string, any>[]} */ ([]));

async function readBounds() {
  try {
    await request('/v1/namespaces?at_index=1');
    oldest.value = 1;
  } catch (error) {
    const named = error instanceof ApiError && error.status === 410 ? error.message.match(/\d+(?=\D*$)/) : null;
    if (named !== null) oldest.value = Number(named[0]);
  }
}

async function readEntries() {
  try {
    entries.value = await get(`/v1/audit?per_page=${MARKS_MAX}`, null);
  } catch {
    entries.value = [];
  }
}

let rest = 0;
effect(() => {
  token.value;
  if (!open.value) return;
  untracked(() => void readBounds());
});
effect(() => {
  newest.value;
  if (!open.value) return;
  clearTimeout(rest);
  rest = window.setTimeout(() => void readEntries(), entries.peek().length === 0 ? 0 : 1000);
});

/** @param {string} command */
function kindOf(command) {
  if (/^(Job|Batch)/.test(command)) return 'job';
  if (/^Node/.test(command)) return 'node';
  return '';
}

/** Marks of entries above the slider: jobs, nodes and refusals stand out. @param {{from: number, to: number}} props */
function Marks({ from, to }) {
  const list = useSignal(entries);
  const width = Math.max(1, to - from);
  return html`<svg class="marks" viewBox="0 0 1000 20" preserveAspectRatio="none" aria-hidden="true">
    ${list.filter((entry) => entry.Index >= from).map((entry) => {
      const kind = entry.Refused ? 'bad' : kindOf(entry.Command);
      const height = kind === '' ? 7 : 16;
      return html`<rect class="tick ${kind}" x=${(1000 * (entry.Index - from)) / width - 1} y=${20 - height}
        width="2.5" height=${height} />`;
    })}</svg>`;
}

/** Entry at an index, for the words beside the slider. @param {number | null} index */
function useEntry(index) {
  const list = useSignal(entries);
  const [read, set] = useState(/** @type {Record<string, any> | null} */ (null));
  const known = index === null ? undefined : list.find((entry) => entry.Index === index);
  useEffect(() => {
    if (index === null || known !== undefined) return;
    get(`/v1/audit?to_index=${index}&per_page=1`, null).then((found) => set(found[0] ?? null), () => set(null));
  }, [index, known === undefined]);
  return index === null ? null : known ?? read;
}

export function Machine() {
  useSignal(isOpen);
  const index = useSignal(at);
  const end = useSignal(newest);
  const from = useSignal(oldest);
  const [dragged, drag] = useState(/** @type {number | null} */ (null));
  const shown = dragged ?? index ?? end;
  const entry = useEntry(index);
  useEffect(() => {
    if (dragged === null) return undefined;
    const timer = window.setTimeout(() => {
      at.value = dragged >= newest.value ? null : dragged;
      drag(null);
    }, REST_MS);
    return () => window.clearTimeout(timer);
  }, [dragged]);
  if (!open.value && index === null) return null;
  const step = (/** @type {number} */ by) => {
    const to = Math.max(from, (index ?? end) + by);
    at.value = to >= end ? null : to;
  };
  return html`<section class="past-bar ${index === null ? '' : 'is-past'}" aria-label="Time machine">
    <div class="row">
      <span class="where">${index === null ? `Now · index ${end}` : `Index ${shown} of ${end}`}</span>
      ${entry ? html`<span><${Time} time=${entry.Time} ago=${false} /> UTC · <b>${entry.Command}</b>
        ${' '}by ${actorWords(entry.Actor)}</span>` : html`<span class="dim">Drag the slider, or press [ and ].</span>`}
      <span class="push"></span>
      <button type="button" aria-label="One entry back" onClick=${() => step(-1)}>◂</button>
      <button type="button" aria-label="One entry forward" disabled=${index === null}
        onClick=${() => step(1)}>▸</button>
      ${index === null ? null : html`<${Link} class="button"
        to=${`/compare?from=${index}&to=${end}`}>Compare with now<//>
        <button type="button" class="main" onClick=${() => { at.value = null; }}>Return to the present</button>`}
      <button type="button" class="quiet" aria-label="Close the time machine"
        onClick=${() => { at.value = null; open.value = false; }}>✕</button></div>
    <div class="track"><${Marks} from=${from} to=${end} />
      <input type="range" aria-label="Log index" min=${from} max=${Math.max(end, from + 1)} value=${shown}
        aria-valuetext=${shown >= end ? 'now' : `index ${shown}`}
        onInput=${(/** @type {any} */ event) => drag(Number(event.target.value))} /></div></section>`;
}

/** Says above every page that it shows the past. */
export function Banner() {
  const index = useSignal(at);
  const state = useSignal(pastState);
  const entry = useEntry(index);
  if (index === null) return null;
  if (state.error !== '') {
    return html`<div class="offline" role="alert"><span>Index ${index} cannot be shown: ${state.error}</span>
      <button type="button" onClick=${() => { at.value = null; }}>Return to the present</button></div>`;
  }
  return html`<div class="past-banner" role="status"><span>This is the past: the state after entry ${index}
    ${entry ? html`, <${Time} time=${entry.Time} ago=${false} /> UTC (<${Time} time=${entry.Time} />)` : null}.
    Nothing can be changed here.${state.loading ? ' Reading…' : ''}</span></div>`;
}
