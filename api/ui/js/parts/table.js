//! Table that renders only the rows in sight, sorts by a column, and is walked with the keyboard.

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from '../lib.js';
import { go } from '../router.js';
import { Empty } from './basics.js';

/** Height of a row in pixels, as in `parts.css`. */
const ROW_PX = 34;
/** Rows that are rendered beyond the edge. */
const MARGIN = 12;

/**
 * @typedef {object} Column
 * @property {string} name
 * @property {(row: any) => any} show
 * @property {(row: any) => string | number} [by]  sorts; a column without it is not sorted
 * @property {string} [class]  `p2` and `p3` vanish on narrow screens, `num` is a number
 */

/**
 * @param {{columns: Column[], rows: any[], id: (row: any) => string, to?: (row: any) => string, label: string,
 *   empty?: any, sort?: string, down?: boolean}} props
 */
export function Table({ columns, rows, id, to, label, empty = 'Nothing here.', sort = '', down = false }) {
  const [order, setOrder] = useState({ name: sort, down });
  const [chosen, setChosen] = useState(-1);
  // Keys come faster than effects run.
  const walked = useRef(-1);
  const [sight, setSight] = useState({ from: 0, to: 60 });
  const body = useRef(/** @type {HTMLElement | null} */ (null));
  const by = columns.find((column) => column.name === order.name)?.by;
  const sorted = useMemo(() => {
    if (by === undefined) return rows;
    const sign = order.down ? -1 : 1;
    const keyed = rows.map((row) => ({ row, key: by(row) }));
    keyed.sort((a, b) => sign * (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
    return keyed.map(({ row }) => row);
  }, [rows, order.name, order.down]);

  useLayoutEffect(() => {
    const look = () => {
      const top = body.current?.getBoundingClientRect().top ?? 0;
      const from = Math.max(0, Math.floor(-top / ROW_PX) - MARGIN);
      const end = Math.ceil((window.innerHeight - top) / ROW_PX) + MARGIN;
      setSight((/** @type {any} */ old) => (old.from === from && old.to === end ? old : { from, to: end }));
    };
    look();
    window.addEventListener('scroll', look, { passive: true });
    window.addEventListener('resize', look);
    return () => {
      window.removeEventListener('scroll', look);
      window.removeEventListener('resize', look);
    };
  }, []);

  useEffect(() => {
    const key = (/** @type {KeyboardEvent} */ event) => {
      if (event.target instanceof HTMLElement && event.target.closest('input, textarea, select, [role=dialog]')) return;
      if (event.metaKey || event.ctrlKey || event.altKey) return;
      if (event.key === 'j' || event.key === 'k') {
        const next = Math.max(0, Math.min(sorted.length - 1, walked.current + (event.key === 'j' ? 1 : -1)));
        walked.current = next;
        setChosen(next);
        const top = (body.current?.getBoundingClientRect().top ?? 0) + next * ROW_PX;
        if (top < 140) window.scrollBy(0, top - 140);
        else if (top > window.innerHeight - 80) window.scrollBy(0, top - window.innerHeight + 80);
      } else if (event.key === 'Enter' && walked.current >= 0 && to !== undefined
        && !(event.target instanceof HTMLElement && event.target.closest('a, button, summary'))) {
        go(to(sorted[walked.current]));
      }
    };
    window.addEventListener('keydown', key);
    return () => window.removeEventListener('keydown', key);
  }, [sorted, to]);

  if (rows.length === 0) return html`<${Empty}>${empty}<//>`;
  const end = Math.min(sorted.length, sight.to);
  const from = Math.min(sight.from, Math.max(0, end - 1));
  const turn = (/** @type {string} */ name) => setOrder({ name, down: order.name === name ? !order.down : false });
  const direction = (/** @type {string} */ name) =>
    (order.name !== name ? undefined : order.down ? 'descending' : 'ascending');
  return html`<div class="scroll"><table class="rows" aria-label=${label} aria-rowcount=${sorted.length + 1}>
    <thead><tr>${columns.map((column) => html`<th class=${column.class} scope="col" aria-sort=${direction(column.name)}>
      ${column.by === undefined ? column.name : html`<button type="button" onClick=${() => turn(column.name)}>
        ${column.name}<span aria-hidden="true">${order.name === column.name ? (order.down ? ' ↓' : ' ↑') : ''}</span>
      </button>`}</th>`)}</tr></thead>
    <tbody ref=${body}>
      ${from > 0 ? html`<tr key="above" aria-hidden="true" style=${{ height: `${from * ROW_PX}px` }}></tr>` : null}
      ${sorted.slice(from, end).map((row, i) => html`<tr key=${id(row)} aria-rowindex=${from + i + 2}
        class=${from + i === chosen ? 'chosen' : ''} onClick=${(/** @type {any} */ event) => {
          if (to !== undefined && !event.target.closest('a, button, input')) go(to(row));
        }}>${columns.map((column) => html`<td class=${column.class}>${column.show(row)}</td>`)}</tr>`)}
      ${end < sorted.length ? html`<tr key="below" aria-hidden="true"
        style=${{ height: `${(sorted.length - end) * ROW_PX}px` }}></tr>` : null}
    </tbody></table></div>`;
}
