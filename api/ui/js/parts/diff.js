//! Differences in words of the API: of two versions of a job, of a plan, and of two rows.

import { html } from '../lib.js';

/** @typedef {Record<string, any>} Row */

const MARKS = /** @type {Record<string, [string, string]>} */ ({
  Added: ['+', 'plus'], Deleted: ['−', 'minus'], Edited: ['~', 'edit'], None: [' ', ''],
});

/** @param {{field: Row}} props */
function Field({ field }) {
  const [mark, kind] = MARKS[field.Type] ?? MARKS.None;
  const value = field.Type === 'Edited' ? `${field.Old || '""'} → ${field.New || '""'}` : field.Old || field.New;
  const notes = (field.Annotations ?? []).join(', ');
  return html`<div class=${kind}><b>${mark}</b> ${field.Name}: ${value}${notes ? html` <em>(${notes})</em>`
    : null}</div>`;
}

/** @param {{name: string, of: Row}} props */
function Block({ name, of }) {
  if (of.Type === 'None') return null;
  const [mark, kind] = MARKS[of.Type] ?? MARKS.None;
  const fields = (of.Fields ?? []).filter((/** @type {Row} */ field) => field.Type !== 'None');
  const notes = of.Updates ? Object.entries(of.Updates).map(([what, count]) => `${count} ${what}`).join(', ')
    : (of.Annotations ?? []).join(', ');
  return html`<div class="block"><div class=${kind}><b>${mark}</b> ${name}${notes
    ? html` <em>(${notes})</em>` : null}</div>
    <div class="inner">${fields.map((/** @type {Row} */ field) => html`<${Field} field=${field} />`)}
    ${(of.Objects ?? []).map((/** @type {Row} */ inner) => html`<${Block} name=${inner.Name} of=${inner} />`)}
    ${(of.Tasks ?? []).map((/** @type {Row} */ inner) => html`<${Block} name=${`task "${inner.Name}"`} of=${inner} />`)}
    </div></div>`;
}

/** Difference of two jobs, as plans and versions have it. @param {{diff: Row | null}} props */
export function JobDiff({ diff }) {
  const same = !diff || diff.Type === 'None';
  if (same) return html`<p class="empty">No difference.</p>`;
  const root = { ...diff, Tasks: [] };
  return html`<div class="code diff" tabindex="0"><${Block} name=${`job "${diff.ID}"`} of=${root} />
    ${(diff.TaskGroups ?? []).map((/** @type {Row} */ group) => html`<${Block} name=${`group "${group.Name}"`}
      of=${group} />`)}</div>`;
}

/** Fields that differ between two rows. Lists and objects are compared as wholes below the second level.
 * @param {Row | undefined} before
 * @param {Row | undefined} after
 */
export function fieldsBetween(before, after) {
  /** @type {{Path: string, Old: any, New: any}[]} */
  const out = [];
  const walk = (/** @type {string} */ path, /** @type {any} */ old, /** @type {any} */ now, /** @type {number} */ depth) => {
    if (JSON.stringify(old) === JSON.stringify(now)) return;
    const isMap = (/** @type {any} */ value) => value !== null && typeof value === 'object' && !Array.isArray(value);
    if (depth > 0 && isMap(old) && isMap(now)) {
      for (const key of new Set([...Object.keys(old), ...Object.keys(now)])) {
        walk(path === '' ? key : `${path}.${key}`, old[key], now[key], depth - 1);
      }
      return;
    }
    out.push({ Path: path, Old: old, New: now });
  };
  walk('', before ?? {}, after ?? {}, 4);
  return out.filter((field) => !/(^|\.)(ModifyIndex|ModifyTime|AllocModifyIndex|Events)$/.test(field.Path));
}

/** Longest value that is shown, in characters. */
const VALUE_MAX = 160;

/** @param {{fields: {Path: string, Old: any, New: any}[]}} props */
export function Fields({ fields }) {
  const text = (/** @type {any} */ value) => {
    if (value === null || value === undefined || value === '') return '—';
    const whole = typeof value === 'object' ? JSON.stringify(value) : String(value);
    return whole.length > VALUE_MAX ? `${whole.slice(0, VALUE_MAX)}…` : whole;
  };
  return html`<div class="fields">${fields.slice(0, 40).map((field) => html`<div><span class="path">${field.Path}</span>
    <del>${text(field.Old)}</del> <span aria-hidden="true">→</span> <ins>${text(field.New)}</ins></div>`)}
    ${fields.length > 40 ? html`<div class="dim">and ${fields.length - 40} more</div>` : null}</div>`;
}
