//! Fields of forms: a label with its input; and what is typed, beside what the server has meanwhile.

import { html, useEffect, useState } from '../lib.js';

/**
 * @param {{label: string, value: string | number, set: (value: string) => void, type?: string, mono?: boolean,
 *   disabled?: boolean, required?: boolean, hint?: string, [name: string]: any}} props
 */
export function Text({ label, value, set, type = 'text', mono = false, hint = '', ...rest }) {
  return html`<label>${label}<input type=${type} class=${mono ? 'mono' : ''} value=${value} autocomplete="off" ...${rest}
    onInput=${(/** @type {any} */ e) => set(e.target.value)} />${hint === '' ? null : html`<small>${hint}</small>`}</label>`;
}

/** @param {{label: string, value: string, set: (value: string) => void, rows?: number, disabled?: boolean}} props */
export function Area({ label, value, set, rows = 8, disabled = false }) {
  return html`<label>${label}<textarea rows=${rows} spellcheck="false" value=${value} disabled=${disabled}
    onInput=${(/** @type {any} */ e) => set(e.target.value)}></textarea></label>`;
}

/** @param {{label: any, value: boolean, set: (value: boolean) => void, disabled?: boolean}} props */
export function Check({ label, value, set, disabled = false }) {
  return html`<label class="check"><input type="checkbox" checked=${value} disabled=${disabled}
    onChange=${(/** @type {any} */ e) => set(e.target.checked)} /> ${label}</label>`;
}

/** @param {{label: string, value: string, set: (value: string) => void, of: string[], disabled?: boolean}} props */
export function Choice({ label, value, set, of, disabled = false }) {
  return html`<label>${label}<select value=${value} disabled=${disabled} onChange=${(/** @type {any} */ e) =>
    set(e.target.value)}>${of.map((one) => html`<option
      value=${one}>${one === '' ? '—' : one}</option>`)}</select></label>`;
}

/** Several of a list. @param {{label: string, of: string[], chosen: string[], set: (chosen: string[]) => void}} props */
export function Several({ label, of, chosen, set }) {
  const all = [...new Set([...of, ...chosen])].sort();
  return html`<fieldset><legend>${label}</legend>${all.length === 0 ? html`<span class="dim">None exists.</span>`
    : html`<div class="several">${all.map((one) => html`<${Check} key=${one} label=${one} value=${chosen.includes(one)}
      set=${(/** @type {boolean} */ is) => set(is ? [...chosen, one] : chosen.filter((other) => other !== one))} />`)}
    </div>`}</fieldset>`;
}

/**
 * Fields that are edited: those of the server until the first edit, then the typed ones, whatever else is written.
 * @template {Record<string, any>} T
 * @param {T} begin  fields of a new object
 * @param {T | null} theirs  fields that the server has
 */
export function useDraft(begin, theirs) {
  const [mine, setMine] = useState(begin);
  /** What the edit began with. */
  const [base, setBase] = useState('');
  const [dirty, setDirty] = useState(false);
  const now = JSON.stringify(theirs);
  const take = () => {
    setDirty(false);
    if (theirs === null) return;
    setMine(theirs);
    setBase(now);
  };
  useEffect(() => {
    if (!dirty) take();
  }, [now]);
  return {
    mine, dirty, take,
    /** @param {Partial<T>} by */
    set: (by) => {
      setMine((/** @type {T} */ old) => ({ ...old, ...by }));
      setDirty(true);
    },
    saved: () => {
      setDirty(false);
      setBase(now);
    },
    isNewer: dirty && theirs !== null && base !== '' && now !== base,
  };
}

/** Says that someone else has changed what is edited. @param {{draft: {isNewer: boolean, take: () => void}}} props */
export function Newer({ draft }) {
  if (!draft.isNewer) return null;
  return html`<div class="note warn" role="alert"><strong>Conflict.</strong> Someone else has changed this after the edit
    began. Saving writes over it. <button type="button" onClick=${draft.take}>Take theirs</button></div>`;
}
