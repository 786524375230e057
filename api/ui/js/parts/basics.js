//! Small pieces of pages: statuses, times, bars, tabs, key and value lists, buttons that write.

import { at } from '../api.js';
import { html, signal, useEffect, useRef, useSignal, useState } from '../lib.js';
import { Link } from '../router.js';
import { millis, shown, span } from '../words.js';

/** @typedef {Record<string, any>} Row */

/** The present minute, for ages; the only clock of the page. */
const clock = signal(Date.now());
setInterval(() => { clock.value = Date.now(); }, 10_000);

/** Tone of a status word: its colour, beside the word itself. @type {Record<string, string>} */
const TONES = {
  running: 'good', ready: 'good', complete: 'done', successful: 'good', alive: 'good', healthy: 'good',
    eligible: 'good',
  live: 'good', passing: 'good', delivering: 'good', pending: 'wait', blocked: 'warn', initializing: 'wait', paused: 'warn',
    unknown: 'warn',
  disconnected: 'warn', ineligible: 'warn', draining: 'warn', starting: 'wait', queued: 'warn', degraded: 'warn',
  failed: 'bad', lost: 'bad', down: 'bad', dead: 'done', cancelled: 'done', canceled: 'done', stopped: 'done',
    denied: 'bad',
  'catching up': 'wait', loading: 'wait', connecting: 'wait', unhealthy: 'bad', failing: 'bad', evicted: 'done',
};

/** @param {string} status */
export const tone = (status) => TONES[status] ?? 'done';

/** @param {{value: string}} props */
export function Status({ value }) {
  return html`<span class="status ${tone(value)}"><i aria-hidden="true"></i>${value}</span>`;
}

/** @param {{time: any, ago?: boolean}} props */
export function Time({ time, ago = true }) {
  const now = useSignal(clock);
  const ms = millis(time);
  if (!Number.isFinite(ms) || ms <= 0) return html`<span class="dim">—</span>`;
  const date = new Date(ms);
  const exact = date.toISOString().replace('T', ' ').slice(0, 19);
  return html`<time datetime=${date.toISOString()} title=${`${exact} UTC`}>${ago ? `${span(now - ms)} ago`
    : exact}</time>`;
}

/**
 * Bar of parts, with its numbers as its name.
 * @param {{parts: {name: string, count: number}[], label: string}} props
 */
export function Bar({ parts, label }) {
  const there = parts.filter((part) => part.count > 0);
  const total = there.reduce((sum, part) => sum + part.count, 0);
  const words = there.map((part) => `${part.count} ${part.name}`).join(', ') || 'none';
  return html`<span class="counts" title=${words}>
    <span class="bar" role="img" aria-label=${`${label}: ${words}`}>
      ${there.map((part) => html`<i class=${tone(part.name)}
        style=${{ width: `${(100 * part.count) / total}%` }}></i>`)}
    </span></span>`;
}

/** @param {{used: number, total: number, label: string, text?: string}} props */
export function Meter({ used, total, label, text }) {
  const share = total > 0 ? Math.min(1, used / total) : 0;
  const level = share > 0.9 ? 'bad' : share > 0.7 ? 'warn' : 'good';
  const percent = Math.round(share * 100);
  return html`<span class="meter" title=${text ?? `${percent} %`}>
    <span class="bar" role="img" aria-label=${`${label}: ${percent} %`}>
      <i class=${level} style=${{ width: `${share * 100}%` }}></i></span>
    <small>${text ?? `${percent} %`}</small></span>`;
}

/** @param {{pairs: [string, any][]}} props */
export function Pairs({ pairs }) {
  const there = pairs.filter(([, value]) => value !== '' && value !== null && value !== undefined);
  return html`<dl class="pairs">${there.map(([name, value]) => html`<div><dt>${name}</dt>
    <dd>${typeof value === 'object' && value !== null && 'type' in value ? value : shown(value)}</dd></div>`)}</dl>`;
}

/** @param {{title: any, children?: any, aside?: any, class?: string}} props */
export function Card({ title, children, aside, class: name = '' }) {
  return html`<section class="card ${name}"><header><h2>${title}</h2><div class="aside">${aside}</div></header>
    ${children}</section>`;
}

/** @param {{tabs: [string, string][], chosen: string, to: (tab: string) => string, label: string}} props */
export function Tabs({ tabs, chosen, to, label }) {
  return html`<nav class="tabs" aria-label=${label}>${tabs.map(([key, name]) => html`
    <${Link} to=${to(key)} aria-current=${key === chosen ? 'page' : undefined}>${name}<//>`)}</nav>`;
}

/** @param {{error: any, children?: any}} props */
export function Failed({ error, children }) {
  if (!error) return null;
  const denied = error.denied === true;
  return html`<div class="note bad" role="alert">
    <strong>${denied ? 'Not permitted. ' : error.status === 404 ? 'Not found. ' : 'Failed. '}</strong>
    ${denied ? html`The token of this page may not do this. ` : null}<span class="mono">${error.message}</span>
    ${denied ? html` <${Link} to="/login">Use another token<//>` : null}${children}</div>`;
}

/** @param {{children: any}} props */
export function Empty({ children }) {
  return html`<p class="empty">${children}</p>`;
}

/**
 * Button that writes: asks again where that is dangerous, says what went wrong, and is off while the page
 * shows the past.
 * @param {{run: () => Promise<any>, children: any, kind?: string, confirm?: string, done?: (answer: any) => void,
 *   disabled?: boolean}} props
 */
export function Action({ run, children, kind = '', confirm = '', done, disabled = false }) {
  const past = useSignal(at) !== null;
  const [state, set] = useState(/** @type {{asked: boolean, busy: boolean, error: any}} */ (
    { asked: false, busy: false, error: null }));
  const there = useRef(true);
  useEffect(() => () => { there.current = false; }, []);
  const press = async () => {
    if (confirm !== '' && !state.asked) {
      set({ asked: true, busy: false, error: null });
      return;
    }
    set({ asked: false, busy: true, error: null });
    let error = /** @type {any} */ (null);
    try {
      const answer = await run();
      done?.(answer);
    } catch (caught) {
      error = caught;
    }
    if (there.current) set({ asked: false, busy: false, error });
  };
  const cancel = () => set({ asked: false, busy: false, error: null });
  const title = past ? 'Writes are off while the page shows the past' : undefined;
  return html`<span class="action">
    <button type="button" class=${state.asked ? 'danger' : kind} disabled=${past || disabled || state.busy}
      title=${title}
      onClick=${press}>${state.asked ? confirm : children}</button>
    ${state.asked ? html`<button type="button" onClick=${cancel}>Cancel</button>` : null}
    ${state.error ? html`<span class="says bad" role="alert">${state.error.message}</span>` : null}</span>`;
}

/**
 * Line of numbers over time.
 * @param {{values: number[], label: string, height?: number, max?: number}} props
 */
export function Spark({ values, label, height = 44, max = 0 }) {
  const top = Math.max(max, 1, ...values);
  const step = values.length > 1 ? 300 / (values.length - 1) : 300;
  const y = (/** @type {number} */ value) => (height - 2 - (value / top) * (height - 6)).toFixed(1);
  const points = values.map((value, i) => `${(i * step).toFixed(1)},${y(value)}`).join(' ');
  return html`<svg class="spark" viewBox=${`0 0 300 ${height}`} preserveAspectRatio="none" role="img"
    aria-label=${label}>
    <polygon points=${`0,${height} ${points} 300,${height}`} /><polyline points=${points} /></svg>`;
}

/** @param {{value: unknown}} props */
export function Json({ value }) {
  return html`<pre class="code" tabindex="0">${JSON.stringify(value, null, 2)}</pre>`;
}

/** @param {{title: any, over?: any, aside?: any, status?: any}} props */
export function Head({ title, over, aside, status }) {
  useEffect(() => { document.title = `${typeof title === 'string' ? title : 'Songline'} · Songline`; }, [title]);
  return html`<div class="head"><div>${over ? html`<div class="over">${over}</div>` : null}
    <h1>${title} ${status}</h1></div><div class="aside">${aside}</div></div>`;
}
